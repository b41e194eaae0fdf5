"""Splits comma-separated text into records and cells, and encodes objects as text; nothing in either can make a job fail."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_CheckExact
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy

cdef enum:
    QUOTE = 34
    COMMA = 44
    NEWLINE = 10
    RETURN = 13

# Where a record that is longer than a text was left.
cdef enum:
    WITHIN
    AT_START
    QUOTED
    AFTER_QUOTE
    AFTER_RETURN

START_OF_RECORD, INSIDE_QUOTES = AT_START, QUOTED

cdef int64_t cell_end(const uint8_t *text, int64_t i, int64_t n, bint final, bint *is_open) noexcept nogil:
    """Position behind the cell that starts at i; −1 if more text has to tell, and then whether a quote is open.

    A cell that starts with a quote ends behind its closing quote and what follows it up to a comma or the end of the line.
    """
    is_open[0] = False
    if i < n and text[i] == QUOTE:
        i += 1
        while True:
            while i < n and text[i] != QUOTE:
                i += 1
            if i >= n:
                is_open[0] = True
                return -1
            if i + 1 < n:
                i += 1
                if text[i] != QUOTE:
                    break
                i += 1
            elif final:
                i += 1
                break
            else:
                return -1
    while i < n and text[i] != COMMA and text[i] != NEWLINE and text[i] != RETURN:
        i += 1
    if i >= n and not final:
        return -1
    return i


cdef int64_t line_end(const uint8_t *text, int64_t i, int64_t n, bint final) noexcept nogil:
    """Position behind the end of a line at i: \n, \r\n or \r; −1 if more text has to tell."""
    if i >= n:
        return i
    if text[i] == RETURN:
        if i + 1 >= n:
            return i + 1 if final else -1
        if text[i + 1] == NEWLINE:
            return i + 2
    return i + 1


def split(const uint8_t[::1] text, bint final, bint skip_empty, const int32_t[::1] slots, int64_t[:, ::1] starts, int64_t[:, ::1] ends):
    """Find the cells of whole records; (records, position behind them, whether the text ends inside a quoted cell).

    The cell of column c goes to row `slots[c]` of `starts` and `ends`, unless that is −1; cells beyond the last column are passed over,
    and a record with too few has empty ones. Lines without a byte are no records where `skip_empty` says so. `final` says that the text
    ends here, and with it its last record.
    """
    cdef int64_t n = text.shape[0], i = 0, stop, behind, done = 0, records = 0, most = starts.shape[1]
    cdef int32_t column, columns = <int32_t> slots.shape[0], slot, wanted = <int32_t> starts.shape[0]
    cdef bint is_open = False
    cdef const uint8_t *p
    if ends.shape[0] != wanted or ends.shape[1] != most:
        raise ValueError("starts and ends must have one shape")
    for column in range(columns):
        if slots[column] >= wanted:
            raise ValueError("each slot must be a row of starts")
    if n == 0 or wanted == 0:
        return 0, 0, False
    p = &text[0]
    with nogil:
        while records < most and i < n:
            if skip_empty and (p[i] == NEWLINE or p[i] == RETURN):
                behind = line_end(p, i, n, final)
                if behind < 0:
                    break
                i = done = behind
                continue
            for slot in range(wanted):
                starts[slot, records] = ends[slot, records] = i
            column = 0
            while True:
                stop = cell_end(p, i, n, final, &is_open)
                if stop < 0:
                    break
                if column < columns:
                    slot = slots[column]
                    if slot >= 0:
                        starts[slot, records], ends[slot, records] = i, stop
                    column += 1
                i = stop
                if i < n and p[i] == COMMA:
                    i += 1
                    continue
                break
            if stop < 0:
                break
            behind = line_end(p, i, n, final)
            if behind < 0:
                break
            i = done = behind
            records += 1
    return records, done, bool(is_open)


def record_end(const uint8_t[::1] text, int state):
    """Position behind the end of the record that the text goes on with, or −1; and the state to go on with.

    For records that are too long to be held. At their start the state is `AT_START`.
    """
    cdef int64_t n = text.shape[0], i, found = -1
    cdef uint8_t c
    for i in range(n):
        c = text[i]
        if state == AFTER_RETURN:
            found = i + (c == NEWLINE)
            break
        if state == QUOTED:
            if c == QUOTE:
                state = AFTER_QUOTE
            continue
        if c == QUOTE and (state == AT_START or state == AFTER_QUOTE):
            state = QUOTED
        elif c == NEWLINE:
            found = i + 1
            break
        elif c == RETURN:
            state = AFTER_RETURN
        else:
            state = AT_START if c == COMMA else WITHIN
    return found, state


def gather(const uint8_t[::1] text, const int64_t[::1] starts, const int64_t[::1] ends, int32_t[::1] offsets, uint8_t[::1] out):
    """Copy cells one behind the other, without the quotes around them; `offsets` has one entry more than there are cells."""
    cdef int64_t n = starts.shape[0], row, i, stop, place = 0, total = 0
    cdef const uint8_t *p
    cdef uint8_t *q
    if ends.shape[0] != n or offsets.shape[0] != n + 1:
        raise ValueError("there must be an end for each start, and one offset more")
    for row in range(n):
        if starts[row] < 0 or ends[row] < starts[row] or ends[row] > text.shape[0]:
            raise ValueError("cells must lie in the text")
        total += ends[row] - starts[row]
    if total > out.shape[0] or total >= 2 ** 31:
        raise ValueError("there must be room for all cells")
    offsets[0] = 0
    if total == 0:
        for row in range(n):
            offsets[row + 1] = 0
        return 0
    p, q = &text[0], &out[0]
    with nogil:
        for row in range(n):
            i, stop = starts[row], ends[row]
            if i < stop and p[i] == QUOTE:
                i += 1
                while i < stop:
                    if p[i] != QUOTE:
                        q[place] = p[i]
                        place += 1
                        i += 1
                    elif i + 1 < stop and p[i + 1] == QUOTE:
                        q[place] = QUOTE
                        place += 1
                        i += 2
                    else:
                        i += 1
                        break
            memcpy(q + place, p + i, <size_t> (stop - i))
            place += stop - i
            offsets[row + 1] = <int32_t> place
    return place


def encode(list cells, rule, tuple absent, int64_t[::1] offsets, uint8_t[::1] present):
    """The UTF-8 of cells one behind the other, as a bytearray; `offsets` has one entry more than there are cells.

    A str is itself, and `rule` says of every other cell which str it is, or None. None, NaN, the objects in `absent` and text that has no
    UTF-8 are missing: they have no bytes, and 0 in `present`. Nothing is asked of a cell but its type, so no code of its class runs.
    """
    cdef Py_ssize_t n = len(cells), i, size = 0
    cdef int64_t place = 0, room = 0
    cdef object cell
    cdef const char *text
    cdef bytearray content = bytearray()
    if offsets.shape[0] != n + 1 or present.shape[0] != n:
        raise ValueError("there must be an offset more than cells, and a byte for each")
    offsets[0] = 0
    for i in range(n):
        if i >= len(cells):
            raise ValueError("the cells changed")
        cell = cells[i]
        text = NULL
        if not PyUnicode_CheckExact(cell):
            cell = None if _is_absent(cell, absent) else rule(cell)
        if cell is not None:
            text = _utf8(cell, &size)
        if text != NULL:
            if place + size > room:
                room = max(2 * room, place + size, 16 * n)
                PyByteArray_Resize(content, <Py_ssize_t> room)
            memcpy(PyByteArray_AS_STRING(content) + place, text, <size_t> size)
            place += size
        present[i] = text != NULL
        offsets[i + 1] = place
    PyByteArray_Resize(content, <Py_ssize_t> place)
    return content


cdef bint _is_absent(object cell, tuple absent):
    """Whether a cell is nothing, by what it is, and not by what it says."""
    if cell is None:
        return True
    if PyFloat_CheckExact(cell):
        return PyFloat_AS_DOUBLE(cell) != PyFloat_AS_DOUBLE(cell)
    for each in absent:
        if cell is each:
            return True
    return False


cdef const char *_utf8(object text, Py_ssize_t *size) except? NULL:
    """The UTF-8 of a str, which keeps it; NULL if it has none, as half of a surrogate pair."""
    try:
        return PyUnicode_AsUTF8AndSize(text, size)
    except UnicodeEncodeError:
        return NULL
