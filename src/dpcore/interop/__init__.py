"""dpcore under other tools: one module a peer, each of which imports its peer when it is used.

Import the module of the tool that you have, for instance ``dpcore.interop.diffprivlib``. Importing it changes nothing. Modules that replace
functions of their peer have ``install()`` and ``uninstall()``, and ``install()`` is a context manager as well.
"""
