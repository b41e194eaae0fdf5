"""The one place that names dpcore's version, and says which code it is."""

from functools import cache

__version__ = "0.2.0.dev0"


@cache
def code_digest() -> str:
    """Return a digest of the package's code, which differs between two packages of one version.

    It covers every Python file of the package. One of them, which the build writes, has a digest of the kernels' sources: the compiled
    kernels themselves differ between compilers and processors that give the same bits.
    """
    import hashlib  # Only Spark asks, so that nothing else pays for reading all files.
    from pathlib import Path

    package = Path(__file__).parent
    found = hashlib.sha256()
    for name in sorted(path.relative_to(package).as_posix() for path in package.rglob("*.py")):
        content = (package / name).read_bytes().replace(b"\r\n", b"\n")
        found.update(f"{name} {len(content)}\n".encode() + content)
    return found.hexdigest()
