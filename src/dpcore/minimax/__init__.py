"""Minimax estimation under local privacy: from a model and a functional to the optimal channel, the estimate and a proven error bound.

Source: document 000, chapters 2 and 3 (Steinberger 2019; Rohde and Steinberger, Ann. Statist. 48, 2020).
"""

from dpcore.minimax.models import Model

__all__ = ["Model"]
