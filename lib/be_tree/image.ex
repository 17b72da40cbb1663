defmodule BeTree.Image do
  @moduledoc """
  An image is an index as one file: a WebAssembly module with all subscriptions in its memory.

      iex> path = Path.join(System.tmp_dir!(), "be_tree_image_\#{System.pid()}.wasm")
      iex> tree = BeTree.new!(age: :integer, country: {:string, optional: true})
      iex> {:ok, 2} = BeTree.insert_all(tree, [{1, "age >= 21"}, {2, "country = 'CA'"}])
      iex> BeTree.Image.write(tree, path)
      :ok
      iex> {:ok, index} = BeTree.Image.read(path)
      iex> BeTree.search(index, %{age: 30, country: "CA"})
      {:ok, [1, 2]}
      iex> File.rm!(path)
      :ok

  An image is written once and read any number of times: after a restart, on other nodes, or by another WebAssembly runtime
  ([Images](image.md) describes the format, and searches in JavaScript, Go, Python and Java; for runtimes without vector
  instructions see `mix be_tree.image build --portable`). Its properties:

    * it is self-contained: the index module with its memory. A newer release of this library does not change that module;
    * reading takes 60 milliseconds for 100 MB of memory. The module is compiled only if the VM has not loaded it before;
    * the same index gives the same bytes, whatever was searched since its last change;
    * it holds no event and no string of a deleted expression: both are wiped. Numbers of deleted expressions may remain.

  Functions take an image as the path of a file, or as `{:binary, bytes}` with a result of `to_binary/2`.

  ## Trust

  The SHA-256 in an image proves integrity, not who wrote the image. Reading checks lengths, versions, the digest, every
  section, the exports and the counts before it uses anything. A forged image can pass these checks with a module and a
  memory of its author's choice. That module runs in the sandbox like any index module: it can return wrong ids and use up
  its memory and the fuel of a search, and reaches nothing else. You trust the runtime: its compiler, which reads the code
  of the image, and the sandbox.
  """

  alias BeTree.{Domain, Error, Guest, Index, Target, Tree}
  alias BeTree.Call.{Instance, InstanceOptions, Reply}
  alias BeTree.Error.Bang
  alias BeTree.Input.{AtomicFile, Check, Describe, FileReader, Options}
  alias BeTree.Input.Options.Common
  alias BeTree.Image.Layout

  @typedoc "An image: the path of a file, or its bytes."
  @type source :: Path.t() | {:binary, binary}

  @typedoc """
  The header of an image.

    * `:version` - of the format;
    * `:abi` - the version of the index module's interface ([the ABI](abi.md));
    * `:schema` - the attributes of the index;
    * `:counts` - the map of `BeTree.info/2`;
    * `:length`, `:memory` - the bytes of the image file, and of the index's memory;
    * `:sha256`, `:guest_sha256` - digests of the image and of the index module, in hexadecimal.
  """
  @type info :: %{
          version: pos_integer,
          abi: pos_integer,
          schema: [Domain.t()],
          counts: %{atom => non_neg_integer},
          length: pos_integer,
          memory: non_neg_integer,
          sha256: String.t(),
          guest_sha256: String.t()
        }

  @type option :: {:memory, pos_integer} | {:runtime, module}
  @type tree_option :: option | {:fuel_per_reduction, pos_integer}

  @write_options Common.wait()
  @tree_options InstanceOptions.take([:memory, :fuel_per_reduction, :runtime])
  @verify_options InstanceOptions.take([:memory, :runtime])
  @read_options @tree_options ++ InstanceOptions.take([:replicas, :queue])
  # Copying an existing memory needs no limit of its own; this exceeds any instance.
  @max_copy_bytes 0x100_0000_0000

  @doc """
  Writes an image of a tree, an index or a server to the file at `path`. The file is replaced atomically and keeps its mode.
  A symbolic link is followed; a device or a pipe is written to.

  The call takes about 300 milliseconds and three times the index's memory for 100 MB. It holds a tree only while it copies
  the tree's memory, on a dirty scheduler. The digest runs on the scheduler of the calling process, charged to that process.

  ## Options

  #{Options.docs(@write_options)}

  Returns `{:error, error}` with the kind `:file`, `:out_of_memory`, `:timeout`, `:trap` for a damaged tree, or
  `:bad_module` for a guest with state outside its memory ([the ABI](abi.md)).
  """
  @spec write(BeTree.target(), Path.t(), timeout: timeout) :: :ok | {:error, Error.t()}
  def write(target, path, options \\ []) do
    Check.path!(path)

    with {:ok, bytes} <- encode(target, options), do: write_file(path, bytes)
  end

  @doc "Like `write/3`, but raises on error."
  @spec write!(BeTree.target(), Path.t(), timeout: timeout) :: :ok
  def write!(target, path, options \\ []), do: Bang.unwrap!(write(target, path, options))

  @doc """
  Like `write/3`, but returns the image as a binary.

      iex> {:ok, bytes} = BeTree.Image.to_binary(BeTree.new!(age: :integer))
      iex> binary_part(bytes, 0, 4)
      <<0, "asm">>
  """
  @spec to_binary(BeTree.target(), timeout: timeout) :: {:ok, binary} | {:error, Error.t()}
  def to_binary(target, options \\ []) do
    with {:ok, bytes} <- encode(target, options), do: {:ok, IO.iodata_to_binary(bytes)}
  end

  @doc "Like `to_binary/2`, but returns the binary and raises on error."
  @spec to_binary!(BeTree.target(), timeout: timeout) :: binary
  def to_binary!(target, options \\ []), do: Bang.unwrap!(to_binary(target, options))

  @doc """
  Returns the index in an image as a `BeTree.Index`, like `BeTree.publish/2`.

  ## Options

  #{Options.docs(@read_options)}

  Returns `{:error, error}` with the kind

    * `:file` when the file cannot be read;
    * `:bad_module` when the image is damaged, truncated, of another version or no image. The message has the expected and
      the actual value;
    * `:out_of_memory` when the image has more memory than `:memory`. It is refused before it is read;
    * `:trap` or `:out_of_fuel` when starting its module fails.

  An image read, and bytes that are none:

      iex> image = {:binary, BeTree.Image.to_binary!(BeTree.new!(age: :integer))}
      iex> {:ok, index} = BeTree.Image.read(image, replicas: 4)
      iex> BeTree.info!(index).expressions
      0
      iex> {:error, error} = BeTree.Image.read({:binary, "hello"})
      iex> error.kind
      :bad_module
  """
  @spec read(source, [tree_option | Index.option()]) :: {:ok, Index.t()} | {:error, Error.t()}
  def read(source, options \\ []) do
    options = Options.validate!(options, @read_options)
    limits = Keyword.take(options, [:memory, :replicas, :queue])

    with {:ok, image} <- load(source, options) do
      Index.new(image.guest, image.schema, image.snapshot, options[:fuel_per_reduction], limits)
    end
  end

  @doc """
  Like `read/2`, but returns the index and raises on error.

      iex> BeTree.Image.read!({:binary, BeTree.Image.to_binary!(BeTree.new!(age: :integer))}) |> inspect() =~ "0 expressions"
      true
  """
  @spec read!(source, [tree_option | Index.option()]) :: Index.t()
  def read!(source, options \\ []), do: Bang.unwrap!(read(source, options))

  @doc """
  Returns a tree with the expressions of an image.

  ## Options

  #{Options.docs(@tree_options)}

  Returns `{:error, error}` with the kinds of `read/2`.

      iex> tree = BeTree.new!(age: :integer)
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> {:ok, other} = BeTree.Image.read_tree({:binary, BeTree.Image.to_binary!(tree)})
      iex> BeTree.insert!(other, 2, "age >= 30")
      iex> BeTree.search(other, %{age: 30})
      {:ok, [1, 2]}
      iex> BeTree.search(tree, %{age: 30})
      {:ok, [1]}
  """
  @spec read_tree(source, [tree_option]) :: {:ok, BeTree.t()} | {:error, Error.t()}
  def read_tree(source, options \\ []) do
    options = Options.validate!(options, @tree_options)

    with {:ok, image} <- load(source, options),
         {:ok, instance} <- Instance.instantiate(image.guest, options[:memory], image.snapshot) do
      {:ok,
       %Tree{
         runtime: image.guest.runtime,
         instance: instance,
         fuel_per_reduction: options[:fuel_per_reduction],
         guest: image.guest,
         schema: image.schema,
         forgiving: Domain.forgiving?(image.schema),
         memory: options[:memory]
       }}
    end
  end

  @doc "Like `read_tree/2`, but returns the tree and raises on error."
  @spec read_tree!(source, [tree_option]) :: BeTree.t()
  def read_tree!(source, options \\ []), do: Bang.unwrap!(read_tree(source, options))

  @doc """
  Checks an image as `read/2` does, without keeping it.

  ## Options

  #{Options.docs(@verify_options)}

  Returns `:ok`, or `{:error, error}` with the kinds of `read/2`.

      iex> bytes = BeTree.Image.to_binary!(BeTree.new!(age: :integer))
      iex> BeTree.Image.verify({:binary, bytes})
      :ok
      iex> {:error, error} = BeTree.Image.verify({:binary, binary_part(bytes, 0, 100_000)})
      iex> Exception.message(error) =~ ~r/this is no image: it has 100000 bytes; expected [0-9]+/
      true
  """
  @spec verify(source, [option]) :: :ok | {:error, Error.t()}
  def verify(source, options \\ []) do
    with {:ok, _image} <- load(source, Options.validate!(options, @verify_options)), do: :ok
  end

  @doc "Like `verify/2`, but raises on error."
  @spec verify!(source, [option]) :: :ok
  def verify!(source, options \\ []), do: Bang.unwrap!(verify(source, options))

  @doc """
  Returns the header of an image. The call reads only the first kilobytes; `verify/2` checks the rest.

  Returns `{:error, error}` with the kind `:file` or `:bad_module`.

      iex> tree = BeTree.new!(age: {:integer, optional: true})
      iex> BeTree.insert!(tree, 1, "age >= 21")
      iex> {:ok, info} = BeTree.Image.info({:binary, BeTree.Image.to_binary!(tree)})
      iex> {info.version, info.abi, info.counts.expressions}
      {1, 1, 1}
      iex> info.schema
      [%BeTree.Domain{name: "age", type: :integer, optional: true}]
  """
  @spec info(source) :: {:ok, info} | {:error, Error.t()}
  def info(source) do
    with {:ok, header} <- header(source),
         {:ok, schema} <- schema(header.schema),
         {:ok, counts} <- counts(header.counts) do
      {:ok,
       %{
         version: header.version,
         abi: header.abi,
         schema: schema,
         counts: counts,
         length: header.length,
         memory: header.memory,
         sha256: Base.encode16(header.sha256, case: :lower),
         guest_sha256: Base.encode16(header.guest_sha256, case: :lower)
       }}
    end
  end

  @doc """
  Like `info/1`, but returns the map and raises on error.

      iex> BeTree.Image.info!({:binary, BeTree.Image.to_binary!(BeTree.new!(age: :integer))}).counts.expressions
      0
  """
  @spec info!(source) :: info
  def info!(source), do: Bang.unwrap!(info(source))

  ## Writing

  # Wipes events and deleted strings from a copy of the memory; the original keeps them.
  defp encode(target, options) do
    timeout = Check.timeout!(options)

    with {:ok, %{runtime: runtime, guest: guest, schema: schema}, snapshot} <- Target.snapshot(target, timeout),
         {:ok, instance} <- Instance.instantiate(guest, @max_copy_bytes, snapshot),
         :ok <- Instance.forget(guest, instance),
         {:ok, snapshot} <- runtime.snapshot(instance, :infinity),
         memory = runtime.snapshot_length(snapshot),
         {:ok, bytes} <- runtime.snapshot_read(snapshot, 0, memory),
         {:ok, counts} <- Instance.call(runtime, instance, "be_tree_info", [], nil),
         {:ok, _info} <- Reply.info(counts) do
      Layout.encode(%Layout{
        abi: Instance.abi(),
        guest: Instance.wasm(guest),
        memory: memory,
        segments: Layout.segments(bytes),
        schema: Domain.encode(schema),
        counts: counts
      })
    end
  end

  defp write_file(path, bytes) do
    with {:error, text} <- AtomicFile.write_file(path, bytes), do: file_error("cannot write #{path}: #{text}")
  end

  ## Reading

  # Returns the checked guest, the schema, and the memory as a snapshot. An instance made from the snapshot must report the
  # same counts as the image.
  defp load(source, options) do
    runtime = options[:runtime]

    with {:ok, bytes} <- bytes(source, options[:memory]),
         {:ok, layout} <- Layout.decode(bytes, Instance.abi()),
         :ok <- check_memory(layout.memory, options[:memory]),
         {:ok, schema} <- schema(layout.schema),
         {:ok, _counts} <- counts(layout.counts),
         {:ok, guest} <- Guest.load(layout.guest, runtime),
         {:ok, snapshot} <- runtime.snapshot_of(layout.memory, layout.segments),
         {:ok, instance} <- Instance.instantiate(guest, options[:memory], snapshot),
         {:ok, counts} <- Instance.call(runtime, instance, "be_tree_info", [], nil),
         :ok <- check_counts(counts, layout.counts),
         do: {:ok, %{guest: guest, schema: schema, snapshot: snapshot}}
  end

  @source "a path or {:binary, the bytes of an image}"

  defp bytes({:binary, bytes}, _memory) when is_binary(bytes), do: {:ok, bytes}

  # The header is read first, so an image with too much memory is refused without reading it.
  defp bytes(path, memory) do
    Check.path!(path, @source)

    with {:ok, stat} <- stat(path) do
      if stat.type == :regular do
        with {:ok, header} <- header(path, stat.size), :ok <- check_memory(header.memory, memory) do
          with {:error, reason} <- File.read(path), do: unreadable("read", path, reason)
        end
      else
        piped(path, memory)
      end
    end
  end

  defp header({:binary, bytes}) when is_binary(bytes), do: Layout.header(bytes, byte_size(bytes))

  defp header({:binary, other}), do: Check.expected!("{:binary, the bytes of an image}", {:binary, other})

  defp header(path) do
    Check.path!(path, @source)

    with {:ok, stat} <- stat(path) do
      if stat.type == :regular do
        header(path, stat.size)
      else
        with {:ok, bytes} <- piped(path, @max_copy_bytes), do: Layout.header(bytes, byte_size(bytes))
      end
    end
  end

  defp stat(path) do
    case File.stat(path) do
      {:ok, %{type: :directory}} -> file_error("cannot read #{path}: it is a directory; expected a file")
      {:ok, stat} -> {:ok, stat}
      {:error, reason} -> unreadable("read", path, reason)
    end
  end

  # Returns the header of a regular file of `size` bytes.
  defp header(path, size) do
    with {:ok, device} <- :file.open(path, [:read, :raw, :binary]) do
      header = read_header(device, size)
      _ = :file.close(device)
      with {:error, reason} when is_atom(reason) <- header, do: unreadable("read", path, reason)
    else
      {:error, reason} -> unreadable("read", path, reason)
    end
  end

  # Reads a pipe or a device, which can be read only once, up to the first byte behind the image.
  defp piped(path, memory) do
    with {:ok, input} <- FileReader.open(path) do
      bytes = read_piped(input, memory)
      FileReader.close(input)
      with {:error, reason} when is_atom(reason) <- bytes, do: unreadable("read", path, reason)
    else
      {:error, reason} -> unreadable("read", path, reason)
    end
  end

  defp read_piped(input, memory) do
    with {:ok, prefix} <- FileReader.read(input, Layout.prefix()),
         {:ok, needed} <- Layout.section_size(prefix),
         {:ok, more} <- FileReader.read(input, max(needed - byte_size(prefix), 0)),
         start = prefix <> more,
         {:ok, header} <- Layout.header(start, nil),
         :ok <- check_memory(header.memory, memory),
         {:ok, rest} <- FileReader.read(input, max(header.length - byte_size(start), 0) + 1) do
      {:ok, start <> rest}
    end
  end

  defp read_header(device, size) do
    with {:ok, prefix} <- pread(device, Layout.prefix()),
         {:ok, needed} <- Layout.section_size(prefix),
         {:ok, start} <- pread(device, min(needed, size)),
         do: Layout.header(start, size)
  end

  defp pread(device, length) do
    with :eof <- :file.pread(device, 0, length), do: {:ok, ""}
  end

  defp schema(schema) do
    with {:error, error} <- Reply.schema(schema), do: bad("its schema is wrong: #{error.message}")
  end

  defp counts(counts) do
    with {:error, error} <- Reply.info(counts), do: bad("its counts are wrong: #{error.message}")
  end

  defp check_memory(memory, limit) when memory <= limit, do: :ok

  defp check_memory(memory, limit) do
    message = "the image holds a memory of #{memory} bytes, more than the limit of #{limit}; raise the option :memory"
    {:error, %Error{kind: :out_of_memory, message: message}}
  end

  # Compared exactly: honest counts never differ.
  defp check_counts(counts, counts), do: :ok

  defp check_counts(counts, expected) do
    with {:ok, counts} <- counts(counts), {:ok, expected} <- counts(expected) do
      bad("its module counts #{text(counts)}; expected #{text(expected)}")
    end
  end

  defp text(counts),
    do: counts |> Enum.sort() |> Enum.map_join(", ", fn {key, count} -> "#{key}: #{Describe.value(count)}" end)

  defp unreadable(action, path, reason), do: file_error("cannot #{action} #{path}: #{:file.format_error(reason)}")

  defp file_error(message), do: {:error, %Error{kind: :file, message: message}}

  defp bad(fault), do: {:error, %Error{kind: :bad_module, message: "this is no image: #{fault}"}}
end
