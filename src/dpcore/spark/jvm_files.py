"""Many files looked at in one call of the driver's Java: a call of Python for each file takes milliseconds, and there are 10⁵ of them.

Spark brings Janino, with which it compiles its own queries; it compiles the class below, too, which needs no jar of dpcore.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark import SparkContext

AT_ONCE = 32
"""Folders, or files, that are looked at at a time; most of the time is the store's."""
MANY = 8
"""A folder with so many files of a table is listed: a store then answers once for a thousand files, and not once for each."""
END = "\0"
"""Behind each entry of what Java answers: no path has it."""
SOURCE = """
import java.net.URI;
import java.net.URLEncoder;
import java.util.*;
import java.util.concurrent.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.*;
import org.apache.parquet.HadoopReadOptions;
import org.apache.parquet.format.converter.ParquetMetadataConverter;
import org.apache.parquet.hadoop.ParquetFileReader;
import org.apache.parquet.hadoop.util.HadoopInputFile;
import org.apache.parquet.schema.MessageType;

public final class CLASS {
  /** All names, in order, each once. */
  public String names(List lists) {
    StringBuilder said = new StringBuilder();
    for (Iterator each = distinct(lists).iterator(); each.hasNext();) said.append((String) each.next()).append((char) 0);
    return said.toString();
  }

  /** Length, time of the last change and name of each file; fails if one is gone. */
  public String sizes(List lists, Configuration conf) throws Exception {
    Map folders = new LinkedHashMap();
    for (Iterator each = distinct(lists).iterator(); each.hasNext();) {
      String name = (String) each.next();
      Path folder = new Path(new URI(name)).getParent();
      if (!folders.containsKey(folder)) folders.put(folder, new ArrayList());
      ((List) folders.get(folder)).add(name);
    }
    List looks = new ArrayList();
    for (Iterator each = folders.values().iterator(); each.hasNext();) looks.add(new Sizes((List) each.next(), conf));
    List found = all(looks);
    StringBuilder said = new StringBuilder();
    for (int i = 0; i < found.size(); i++) said.append((String) found.get(i));
    return said.toString();
  }

  /** The different lists of columns of Parquet files, in order, each behind the number of the first file that has it, from 1. */
  public String columns(List lists, Configuration conf) throws Exception {
    List looks = new ArrayList();
    for (Iterator each = distinct(lists).iterator(); each.hasNext();) looks.add(new Columns((String) each.next(), conf));
    List found = all(looks);
    Set known = new HashSet();
    StringBuilder said = new StringBuilder();
    for (int i = 0; i < found.size(); i++)
      if (known.add(found.get(i))) said.append(i + 1).append((String) found.get(i)).append((char) 0);
    return said.toString();
  }

  static Set distinct(List lists) {
    Set names = new TreeSet();
    for (int i = 0; i < lists.size(); i++) names.addAll(Arrays.asList((String[]) lists.get(i)));
    return names;
  }

  static List all(List looks) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(Math.max(1, Math.min(looks.size(), AT_ONCE)));
    try {
      List waiting = new ArrayList();
      for (int i = 0; i < looks.size(); i++) waiting.add(threads.submit((Callable) looks.get(i)));
      List found = new ArrayList();
      for (int i = 0; i < waiting.size(); i++) found.add(((Future) waiting.get(i)).get());
      return found;
    } finally {
      threads.shutdownNow();
    }
  }

  static final class Sizes implements Callable {
    final List names;
    final Configuration conf;
    Sizes(List names, Configuration conf) { this.names = names; this.conf = conf; }
    public Object call() throws Exception {
      Path first = new Path(new URI((String) names.get(0)));
      FileSystem system = first.getFileSystem(conf);
      Map listed = new HashMap();
      if (names.size() >= MANY)
        try {
          for (RemoteIterator each = system.listStatusIterator(first.getParent()); each.hasNext();) {
            FileStatus status = (FileStatus) each.next();
            listed.put(status.getPath().getName(), status);
          }
        } catch (java.io.IOException e) {
          listed.clear(); // a folder may be closed whose files are open
        }
      StringBuilder said = new StringBuilder();
      for (int i = 0; i < names.size(); i++) {
        String name = (String) names.get(i);
        Path path = new Path(new URI(name));
        FileStatus status = (FileStatus) listed.get(path.getName());
        if (status == null) status = system.getFileStatus(path);
        said.append(status.getLen()).append(' ').append(status.getModificationTime()).append(' ').append(name).append((char) 0);
      }
      return said.toString();
    }
  }

  static final class Columns implements Callable {
    final String name;
    final Configuration conf;
    Columns(String name, Configuration conf) { this.name = name; this.conf = conf; }
    public Object call() throws Exception {
      Path path = new Path(new URI(name));
      ParquetFileReader reader = ParquetFileReader.open(
        HadoopInputFile.fromPath(path, conf),
        HadoopReadOptions.builder(conf, path).withMetadataFilter(ParquetMetadataConverter.SKIP_ROW_GROUPS).build());
      try {
        MessageType schema = reader.getFileMetaData().getSchema();
        StringBuilder said = new StringBuilder();
        for (int i = 0; i < schema.getFieldCount(); i++) said.append(' ').append(URLEncoder.encode(schema.getFieldName(i), "UTF-8"));
        return said.toString();
      } finally {
        reader.close();
      }
    }
  }
}
"""


class DriverFiles:
    """The files that a driver's Java looks at.

    Parameters
    ----------
    context : pyspark.SparkContext
        Whose Java, and whose Hadoop, it is.
    """

    def __init__(self, context: SparkContext) -> None:
        self._jvm: Any = context._jvm  # noqa: SLF001 - Python has no access to the file systems of Hadoop
        self._conf = context._jsc.hadoopConfiguration()  # noqa: SLF001
        # A name of its own for each: py4j remembers the methods of a class by the name of the class.
        name = f"DpcoreFiles{secrets.token_hex(8)}"
        compiler = self._jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(self._jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(SOURCE.replace("CLASS", name).replace("AT_ONCE", str(AT_ONCE)).replace("MANY", str(MANY)))
        self._java = compiler.getClassLoader().loadClass(name).newInstance()

    def names(self, arrays: Iterable[Any]) -> list[str]:
        """The names in arrays of Java, in order, each once."""
        return _entries(self._java.names(self._listed(arrays)))

    def sizes(self, arrays: Iterable[Any]) -> dict[str, tuple[int, int]]:
        """Length and time of the last change of each file that arrays of Java name, by name; an error of Java if one is gone."""
        said = (entry.split(" ", 2) for entry in _entries(self._java.sizes(self._listed(arrays), self._conf)))
        return {name: (int(length), int(time)) for length, time, name in said}

    def columns(self, arrays: Iterable[Any]) -> list[tuple[int, tuple[str, ...]]]:
        """The different columns of Parquet files, in the order of their names, with the number of the first file that has each, from 1."""
        said = (entry.split(" ") for entry in _entries(self._java.columns(self._listed(arrays), self._conf)))
        return [(int(number), tuple(map(unquote_plus, names))) for number, *names in said]

    def _listed(self, arrays: Iterable[Any]) -> Any:
        lists = self._jvm.java.util.ArrayList()
        for each in arrays:
            lists.add(each)
        return lists


def java_array(context: SparkContext, texts: Sequence[str]) -> Any:
    """Some texts, one or more, as an array of Java, without a call for each."""
    jvm: Any = context._jvm  # noqa: SLF001 - pyspark's own way takes a call for each
    return jvm.java.util.regex.Pattern.compile(END).split(END.join(texts))


def _entries(said: str) -> list[str]:
    return said.split(END)[:-1]
