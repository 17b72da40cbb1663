import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.kie.api.KieBase;
import org.kie.api.definition.type.FactType;
import org.kie.api.io.ResourceType;
import org.kie.api.runtime.ClassObjectFilter;
import org.kie.api.runtime.KieSession;
import org.kie.internal.utils.KieHelper;

/**
 * Runs rules on facts a number of times, and prints the seconds of each run, the firings, and the facts of some types at the end.
 *
 * <p>Arguments: the rules, the facts (lines of a type and fields, separated by tabs), the number of runs, and types to count.
 */
public final class Drools {
  public static void main(String[] arguments) throws Exception {
    KieBase base = new KieHelper().addContent(Files.readString(Path.of(arguments[0])), ResourceType.DRL).build();
    List<String> lines = Files.readAllLines(Path.of(arguments[1]));
    int runs = Integer.parseInt(arguments[2]);
    for (int run = 1; run <= runs; run++) {
      List<Object> facts = new ArrayList<>();
      for (String line : lines) {
        facts.add(fact(base, line));
      }
      KieSession session = base.newKieSession();
      long started = System.nanoTime();
      facts.forEach(session::insert);
      int firings = session.fireAllRules();
      System.out.println("seconds " + (System.nanoTime() - started) / 1e9);
      if (run == runs) {
        System.out.println("firings " + firings);
        for (int number = 3; number < arguments.length; number++) {
          Class<?> type = type(base, arguments[number]).getFactClass();
          System.out.println(arguments[number] + " " + session.getObjects(new ClassObjectFilter(type)).size());
        }
      }
      session.dispose();
    }
  }

  private static FactType type(KieBase base, String name) {
    return base.getFactType("bench", "T_" + name);
  }

  private static Object fact(KieBase base, String line) throws Exception {
    String[] fields = line.split("\t");
    FactType type = type(base, fields[0]);
    Object fact = type.newInstance();
    for (int number = 1; number < fields.length; number++) {
      int equals = fields[number].indexOf('=');
      type.set(fact, fields[number].substring(0, equals), value(fields[number].substring(equals + 1)));
    }
    return fact;
  }

  private static Object value(String text) {
    if (text.startsWith("'")) {
      return text.substring(1, text.length() - 1);
    }
    if (text.equals("true") || text.equals("false")) {
      return Boolean.valueOf(text);
    }
    return Long.valueOf(text);
  }
}
