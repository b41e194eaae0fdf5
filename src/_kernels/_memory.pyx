"""Memory that is wiped when its owner goes: keys, random words, copies of records."""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.object cimport PyObject_GenericSetAttr
from cpython.ref cimport Py_INCREF, Py_REFCNT
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp

from dpk cimport dpk_wipe

include "key.pxi"
include "fresh.pxi"


cdef extern from "Python.h":
    # Cython itself declares an object here, and compilers take no pointer to an object for one to a type since gcc 14.
    object PyType_GenericAlloc(type type, Py_ssize_t items)


cdef class Wiped:
    """So many bytes, at first 0, that are overwritten when the last buffer on them is released."""

    cdef char *memory
    cdef Py_ssize_t size

    def __cinit__(self, Py_ssize_t size):
        if size < 0:
            raise ValueError("size must not be negative")
        self.memory = <char *> calloc(<size_t> size + 1, 1)
        if self.memory == NULL:
            raise MemoryError
        self.size = size

    def __dealloc__(self):
        if self.memory != NULL:
            dpk_wipe(self.memory, <size_t> self.size)
            free(self.memory)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.memory, self.size, False, flags)

    def __len__(self):
        return self.size


cdef class Key:
    """A key of 32 bytes, of which the kernels make copies and wipe them. `bytes(key)` and a pickle are copies, too, and not wiped."""

    cdef uint8_t material[32]

    def __cinit__(self, source):
        load_key(self.material, source)

    def __dealloc__(self):
        dpk_wipe(self.material, 32)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.material, 32, True, flags)

    def __eq__(self, other):
        return isinstance(other, Key) and memcmp(self.material, (<Key> other).material, 32) == 0

    __hash__ = None

    def __repr__(self):
        return "Key(<32 bytes>)"

    def __reduce__(self):
        return Key, (bytes(self),)


def fresh_key(read):
    """The 32 bytes that `read(32)` gives as a `Key`, then the only place that holds them; or what it gave, if that is not 32 bytes.

    Bytes objects are immutable to Python and this one is nobody else's: it is overwritten if no other reference to it is left.
    """
    material = read(32)
    if not PyBytes_CheckExact(material) or PyBytes_GET_SIZE(material) != 32:
        return material
    key = Key(material)
    if Py_REFCNT(material) == 1:
        dpk_wipe(PyBytes_AS_STRING(material), 32)
    return key


def os_key():
    """A fresh key of the operating system."""
    cdef Key key = Key(bytes(32))
    fresh_material(key.material)
    return key


def secure_position(type kind):
    """As `kind((os_key(), 0, 0, True))` for a subclass of tuple, but faster: a call on one number notices the difference."""
    if not issubclass(kind, tuple):
        raise TypeError("positions are tuples")
    key = os_key()
    position = PyType_GenericAlloc(kind, 4)
    put(position, 0, key)
    put(position, 1, 0)
    put(position, 2, 0)
    put(position, 3, True)
    return position


def filled(type kind, tuple names, *values):
    """As `kind(*values)` for a frozen class without checks of its own whose fields have these names, but faster."""
    made = PyType_GenericAlloc(kind, 0)
    for i in range(len(names)):
        PyObject_GenericSetAttr(made, names[i], values[i])
    return made


cdef void put(position, Py_ssize_t place, item) noexcept:
    Py_INCREF(item)
    PyTuple_SET_ITEM(position, place, item)
