"""Models, channels and distances on finite sample spaces, moduli of continuity, and the bounds that follow from them."""
