"""Compiled kernels of dpcore. Only `dpcore._backend` imports them."""
