import com.dylibso.chicory.compiler.MachineFactoryCompiler;
import com.dylibso.chicory.runtime.ExportFunction;
import com.dylibso.chicory.runtime.Instance;
import com.dylibso.chicory.runtime.Memory;
import com.dylibso.chicory.wasm.Parser;
import com.dylibso.chicory.wasm.types.MemoryLimits;
import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.stream.Collectors;
import java.util.stream.LongStream;

/**
 * Searches an image on the JVM: {@code java -cp 'lib/*' Search.java index.wasm < events}
 *
 * <p>Reads one JSON object a line, and prints the ids of its matches, or why it was refused. The image must be portable,
 * because Chicory has no vector instructions. The environment variable MEMORY limits the memory of the instance, in bytes.
 */
public final class Search {
  private static final int PAGE_BYTES = 65536;
  private static final int MAX_PAGES = 65536;

  private final Memory memory;
  private final ExportFunction inbox;
  private final ExportFunction search;
  private final int outbox;

  private Search(File image, long maxBytes) {
    var module = Parser.parse(image);
    int pages = module.memorySection().orElseThrow().getMemory(0).limits().initialPages();
    int maxPages = (int) Math.min(MAX_PAGES, maxBytes / PAGE_BYTES);
    if (maxPages < pages) throw new IllegalArgumentException("the image has more memory than MEMORY");
    var instance =
        Instance.builder(module)
            .withMachineFactory(MachineFactoryCompiler::compile)
            .withMemoryLimits(new MemoryLimits(pages, maxPages))
            .build();
    memory = instance.memory();
    inbox = instance.export("be_tree_inbox");
    search = instance.export("be_tree_search");
    outbox = (int) instance.export("be_tree_outbox").apply()[0];
  }

  private String search(byte[] event) {
    int address = (int) inbox.apply(event.length)[0];
    if (address == 0) return "refused: out_of_memory";
    memory.write(address, event);
    long status = search.apply(1, event.length, -1, 0)[0];
    byte[] result = memory.readBytes(memory.readInt(outbox), memory.readInt(outbox + 4));
    // The term of an error begins with its kind.
    if (status != 0) return "refused: " + new String(result, 5, result[4], StandardCharsets.UTF_8);
    // The first two numbers count visited entries and evaluated expressions.
    var words = ByteBuffer.wrap(result).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer();
    return LongStream.range(2, words.limit())
        .mapToObj(at -> Long.toUnsignedString(words.get((int) at)))
        .collect(Collectors.joining(",", "[", "]"));
  }

  public static void main(String[] arguments) throws Exception {
    var limit = System.getenv("MEMORY");
    var index = new Search(new File(arguments[0]), limit == null ? Long.MAX_VALUE : Long.parseLong(limit));
    var events = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String event; (event = events.readLine()) != null; ) {
      System.out.println(index.search(event.getBytes(StandardCharsets.UTF_8)));
    }
  }
}
