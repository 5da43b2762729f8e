// Edit distance of two strings, by Python's C API alone.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace {

std::size_t distance(const std::u32string &left, const std::u32string &right) {
    std::vector<std::size_t> row(right.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < left.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i + 1;
        for (std::size_t j = 0; j < right.size(); ++j) {
            const std::size_t replaced = diagonal + (left[i] != right[j]);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
        }
    }
    return row.back();
}

std::u32string text(PyObject *object) {
    std::u32string result(static_cast<std::size_t>(PyUnicode_GetLength(object)), U'\0');
    for (std::size_t i = 0; i < result.size(); ++i) {
        result[i] = PyUnicode_ReadChar(object, static_cast<Py_ssize_t>(i));
    }
    return result;
}

PyObject *edit_distance(PyObject *, PyObject *args) {
    PyObject *left = nullptr;
    PyObject *right = nullptr;
    if (!PyArg_ParseTuple(args, "UU:edit_distance", &left, &right)) {
        return nullptr;
    }
    try {
        return PyLong_FromSize_t(distance(text(left), text(right)));
    } catch (const std::bad_alloc &) {
        return PyErr_NoMemory();
    }
}

PyMethodDef methods[] = {
    {"edit_distance", edit_distance, METH_VARARGS,
     "edit_distance(left, right)\n--\n\n"
     "Return how many characters must be added, removed or replaced to turn one text into the other."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "_core", "The compiled part of bakery_example_cpp.", 0, methods, nullptr, nullptr, nullptr,
    nullptr,
};

} // namespace

PyMODINIT_FUNC PyInit__core() { return PyModuleDef_Init(&module); }
