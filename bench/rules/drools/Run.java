import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicInteger;

import org.kie.api.KieBase;
import org.kie.api.definition.type.FactField;
import org.kie.api.definition.type.FactType;
import org.kie.api.io.ResourceType;
import org.kie.api.runtime.ClassObjectFilter;
import org.kie.api.runtime.KieSession;
import org.kie.internal.utils.KieHelper;

/**
 * Runs rules on facts in Drools.
 *
 * <p>Arguments: the file of the rules; the file of the facts, a line each; {@code end} to fire the rules once all facts are
 * inserted or {@code each} to fire them after each; the number of runs, of which the first few only warm the virtual machine; and
 * the types whose facts are counted at the end. Prints the seconds of each run that counts, which are those of this thread on the
 * processor: what other threads compile and collect is not in them.
 */
class Run {
  /** A value of a fact: its field and itself. */
  record Value(FactField field, Object value) {}

  /** A fact that is made anew for each run, because rules change it. */
  record Row(FactType type, List<Value> values) {
    Object make(int number) throws ReflectiveOperationException {
      Object fact = type.newInstance();
      type.set(fact, "number", number);
      for (Value value : values) value.field().set(fact, value.value());
      return fact;
    }
  }

  static final int WARM = 3;

  public static void main(String[] arguments) throws Exception {
    PrintStream out = System.out;
    // Libraries report on the standard output.
    System.setOut(System.err);
    KieBase base = new KieHelper().addContent(Files.readString(Path.of(arguments[0])), ResourceType.DRL).build();
    List<Row> rows = new ArrayList<>();
    for (String line : Files.readAllLines(Path.of(arguments[1]))) rows.add(row(base, line));
    boolean each = arguments[2].equals("each");
    int runs = Integer.parseInt(arguments[3]);
    ThreadMXBean clock = ManagementFactory.getThreadMXBean();
    for (int run = 0; run < WARM + runs; run++) {
      List<Object> facts = new ArrayList<>();
      AtomicInteger numbers = new AtomicInteger();
      for (Row row : rows) facts.add(row.make(numbers.incrementAndGet()));
      KieSession session = base.newKieSession();
      session.setGlobal("numbers", numbers);
      long started = clock.getCurrentThreadCpuTime();
      int firings = 0;
      for (Object fact : facts) {
        session.insert(fact);
        if (each) firings += session.fireAllRules();
      }
      firings += session.fireAllRules();
      long ended = clock.getCurrentThreadCpuTime();
      if (run < WARM) {
        session.dispose();
        continue;
      }
      out.printf(Locale.ROOT, "seconds %.9f%n", (ended - started) / 1e9);
      if (run == WARM + runs - 1) {
        out.println("firings " + firings);
        for (int name = 4; name < arguments.length; name++) {
          Class<?> type = base.getFactType("bench", "T_" + arguments[name]).getFactClass();
          out.println(arguments[name] + " " + session.getObjects(new ClassObjectFilter(type)).size());
        }
      }
      session.dispose();
    }
  }

  /** Reads a line: the type, and the fields with their values, separated by tabs. */
  static Row row(KieBase base, String line) {
    String[] parts = line.split("\t");
    FactType type = base.getFactType("bench", "T_" + parts[0]);
    List<Value> values = new ArrayList<>();
    for (int part = 1; part < parts.length; part++) {
      String[] pair = parts[part].split("=", 2);
      FactField field = type.getField(pair[0]);
      values.add(new Value(field, value(field, pair[1])));
    }
    return new Row(type, values);
  }

  static Object value(FactField field, String text) {
    if (text.startsWith("'")) return text.substring(1, text.length() - 1);
    if (field.getType() == boolean.class) return Boolean.valueOf(text);
    if (field.getType() == double.class) return Double.valueOf(text);
    return Long.valueOf(text);
  }
}
