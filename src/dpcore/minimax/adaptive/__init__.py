"""Estimators that choose a range or a bandwidth by themselves, and several functionals under one ε."""
