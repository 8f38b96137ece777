"""
Saves files of Jupyter at once or not at all. Jupyter writes over the file itself: who reads it
meanwhile finds it empty, as a notebook on a full disk or of a server that was killed may stay. This
extension of Jupyter's server writes another file, and gives it the name at the end.
"""
import os
import secrets
import stat
from contextlib import contextmanager, suppress

from jupyter_server.services.contents import fileio

write_over = fileio.atomic_writing


def _former(path):
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _is_replaceable(former):
    """A file of several names keeps them, and one of another user keeps its owner."""
    regular = stat.S_ISREG(former.st_mode) and former.st_nlink == 1
    return regular and os.geteuid() in (0, former.st_uid)


def _give(file, former):
    # A shared folder may refuse root, too.
    with suppress(PermissionError):
        os.fchown(file, former.st_uid, former.st_gid)
    os.fchmod(file, stat.S_IMODE(former.st_mode))


@contextmanager
def write_whole(path, text=True, encoding="utf-8", log=None, **kwargs):
    path = os.path.realpath(path)
    folder, former = os.path.dirname(path), _former(path)
    replaceable = former is None or (_is_replaceable(former) and os.access(path, os.W_OK))
    if not replaceable or not os.access(folder, os.W_OK):
        with write_over(path, text, encoding, log, **kwargs) as file:
            yield file
        return
    other = os.path.join(folder, f".~{secrets.token_hex(8)}")
    options = {"encoding": encoding, "newline": "\n"} if text else {}
    file = open(other, "x" if text else "xb", **{**options, **kwargs})
    try:
        if former is not None:
            _give(file.fileno(), former)
        yield file
        file.flush()
        os.fsync(file.fileno())
        file.close()
        os.replace(other, path)
    except BaseException:
        with suppress(OSError):
            file.close()
        with suppress(OSError):
            os.remove(other)
        raise


def _load_jupyter_server_extension(app):
    fileio.atomic_writing = write_whole


def _jupyter_server_extension_points():
    return [{"module": "whole_files"}]
