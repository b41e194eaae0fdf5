/* The library of all modules: what is named here is linked, and found in this file by the finder of __init__.py. */
#include <Python.h>

/* clang-format off */
#define MODULES(X) \
    X(_bitgen) X(_constant) X(_counts) X(_dispatch) X(_hash) X(_memory) X(_noise) X(_ranges) X(_release) X(_response) X(_search) X(_selection) \
    X(_shared) X(_sums) X(_text)
/* clang-format on */

#define DECLARED(name) PyMODINIT_FUNC PyInit_##name(void);
#define NAMED(name) PyInit_##name,

MODULES(DECLARED)

/* Not static, so that the compiler keeps it, and the linker what it names. */
extern PyObject *(*const dpk_modules[])(void);
PyObject *(*const dpk_modules[])(void) = {MODULES(NAMED)};

/* The module that Python finds under the library's own name has nothing in it. */
static PyModuleDef_Slot slots[] = {
#if defined(Py_GIL_DISABLED)
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL}};
static PyModuleDef itself = {.m_base = PyModuleDef_HEAD_INIT, .m_name = "_library", .m_slots = slots};

PyMODINIT_FUNC PyInit__library(void) { return PyModuleDef_Init(&itself); }
