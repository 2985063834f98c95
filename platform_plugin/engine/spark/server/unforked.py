"""A Hadoop file system for local files that starts no `chmod` process for each file.

Hadoop without its native library starts a process to set a file's mode, which is most of the cost of a small write. The class below sets it
in the JVM. It is compiled by the compiler that Spark carries for its own generated code (Janino), so it needs neither a jar nor a JDK. It
writes no `.crc` files either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pathlib import Path

CLASS_NAME = "platform_plugin.UnforkedFileSystem"
FALLBACK = "org.apache.hadoop.fs.RawLocalFileSystem"
"""Hadoop's class, which starts one process for each file and writes no `.crc` files."""

_SOURCE = """
package platform_plugin;

public class UnforkedFileSystem extends org.apache.hadoop.fs.RawLocalFileSystem {
  public void setPermission(org.apache.hadoop.fs.Path path, org.apache.hadoop.fs.permission.FsPermission permission)
      throws java.io.IOException {
    String mode = permission.toString().replace('t', 'x').replace('T', '-').substring(0, 9);
    java.nio.file.Files.setPosixFilePermissions(
        pathToFile(path).toPath(), java.nio.file.attribute.PosixFilePermissions.fromString(mode));
  }
}
"""


def compile_unforked(gateway: Any, folder: Path) -> str:
    """Compile the class into `folder`, which is on the JVM's class path, and return the name of the class to use."""
    try:
        compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.cook(_SOURCE)
        for name, code in dict(compiler.getBytecodes()).items():
            file = folder.joinpath(*name.split(".")).with_suffix(".class")
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file.write_bytes(code)
    except (Py4JError, OSError):
        # Slower, not wrong: a future Spark may carry another compiler.
        return FALLBACK
    return CLASS_NAME
