defmodule BeTree.Output do
  @moduledoc """
  An output: many processes put messages, and one sink gets them in pages, within bounds.

      children = [{BeTree.Output, name: MyApp.Alerts, sink: {:file, "alerts.log"}, overflow: :drop_new}]

      BeTree.Output.put(MyApp.Alerts, ["symbol ", symbol, " at ", price, ?\\n])

  A message that is put costs its sender about a tenth of a microsecond: it is copied to the end of the sender's page, outside of
  the heaps of the VM. A page enters the queue when it is full, after `:linger` milliseconds, or when its process ends, however it
  ends. The output's own process then gives up to 64 KB of the queue to the sink at once. So a slow sink delays the
  senders only by the policy `:overflow`, and a fast one is not slowed by one message each.

  Messages of one process reach the sink in the order in which they were put.

  ## Sinks

  | `:sink` | a message is delivered when | messages are |
  | --- | --- | --- |
  | `{:process, pid or name}` | the process has acknowledged it | iodata |
  | `{:device, pid or name}`, such as `{:device, :user}` | the I/O device has answered | text |
  | `{:file, path}`, appended to | the operating system has taken it | iodata |
  | `{:tcp, socket}`, owned by another process | the operating system has taken it | iodata |
  | `{module, argument}` (`BeTree.Output.Sink`) | the module has returned `:ok` | iodata |

  The process of a sink receives `{:be_tree_output, name, {:messages, messages, reference}}`, a list of binaries, and acknowledges it by
  `ack/1`. Before a list it may receive `{:be_tree_output, name, {:dropped, count}}`.

  Text is converted to the encoding of the device in the process that puts it. A device with the encoding `latin1` gets `\\x{3B1}` for a
  character that it does not have, as from `:io.format/3`.

  A sink that fails is opened again: the messages that it had count as lost, the others wait. If that can never succeed, because a
  pid ended or a socket is closed, the output is closed: pending messages are lost, and `put/2` returns an error of kind `:closed`
  until `configure/2` gives it another sink.

  ## Overflow

  The queue holds `buffer: [bytes:, count:]`, and one page of each sender does not count. A message longer than that goes when the queue is
  empty. A message without room is treated by the option `:overflow`:

    * `:block` - its sender sleeps until the writer wakes it, in the order of arrival, or returns the error `:timeout`;
    * `:drop_new` - it is dropped: `put/2` returns an error of kind `:overloaded`;
    * `:drop_old` - the oldest pages of the queue are dropped;
    * `:disconnect` - the output is closed. A socket is closed, and a process is sent `{:be_tree_output, name, :disconnected}`.

  An overload ends when the queue is half empty. Before the next page the sink gets the number of dropped messages, as text in the
  line `BeTree.Output: 12 messages dropped`.

  ## Counts and faults

  `stats/1` returns the counts. `accepted = delivered + dropped + lost + pending` also holds when processes are killed, because the
  counts change in the same step as the pages. A killed writer loses the messages of one job, which may have reached the sink.
  The messages of a process that ends stay, unless they alone fill the queue a second time. The output stops in up to five seconds, while it writes what is pending.

  Telemetry: `[:be_tree, :output, :write]`, `:lost`, `:dropped` and `:closed` (`BeTree.Telemetry`).

  The queue is a part of the NIF of this library, which an output needs even where searches run on wasmex.
  """

  use Supervisor

  import BeTree.Output.Sender, only: [key: 1, long: 0]

  alias BeTree.Error
  alias BeTree.Input.{Check, Describe, Options}
  alias BeTree.Output.{Sender, Settings, Sink, Stats, Writer}
  alias BeTree.Processes.{Deadline, Failure, Supervised}
  alias BeTree.Runtime.Native

  @type name :: atom

  @type option ::
          {:name, name}
          | {:sink, {:process | :device, pid | atom} | {:file, Path.t()} | {:tcp, :gen_tcp.socket()} | {module, term}}
          | {:page, pos_integer}
          | {:linger, non_neg_integer}
          | {:buffer, bytes: pos_integer, count: pos_integer}
          | {:overflow, :block | :drop_new | :drop_old | :disconnect}
          | {:timeout, timeout}

  # A writer may be killed often, as long as the next one can begin.
  @max_restarts 1_000

  @doc """
  Starts an output under the calling process. It is a supervisor of the writer.

  ## Options

    * `:name` - an atom, by which the other functions know the output. The supervisor is registered under it, and it is the name of
      an ETS table
  #{Options.docs(Settings.definitions())}

  Returns `{:ok, pid}`, or `{:error, error}` with the kind `:file` if the sink cannot be opened, or `:bad_module` without the NIF.
  Raises an `ArgumentError` for a wrong option.

      iex> {:ok, _pid} = BeTree.Output.start_link(name: Started, sink: {:process, self()})
      iex> BeTree.Output.put(Started, "hello")
      :ok
      iex> receive do
      ...>   {:be_tree_output, Started, {:messages, messages, reference}} ->
      ...>     BeTree.Output.ack(reference)
      ...>     messages
      ...> end
      ["hello"]
  """
  @spec start_link([option]) :: Supervisor.on_start() | {:error, Error.t()}
  def start_link(options) do
    Options.keyword!(options)
    {name, options} = Keyword.pop(options, :name)

    unless is_atom(name) and name not in [nil, true, false],
      do: raise(ArgumentError, "the option :name takes an atom, got: #{Describe.value(name)}")

    settings = Settings.new!(name, options)

    case Native.load() do
      :ok -> Supervised.start_link(__MODULE__, settings, settings.name)
      {:error, kind, reason} -> {:error, %Error{kind: kind, message: "an output needs the NIF: #{reason}"}}
    end
  end

  @doc """
  Returns the child specification, with which `{BeTree.Output, options}` stands in a list of children.

      iex> BeTree.Output.child_spec(name: Alerts, sink: {:device, :user}).id
      {BeTree.Output, Alerts}
  """
  @spec child_spec([option]) :: Supervisor.child_spec()
  def child_spec(options), do: Supervised.child_spec(__MODULE__, options)

  @impl Supervisor
  def init(settings) do
    Settings.new_table(settings)
    writer = %{id: Writer, start: {Writer, :start_link, [settings.name]}}
    Supervisor.init([writer], strategy: :one_for_one, max_restarts: @max_restarts, max_seconds: 1)
  end

  @doc """
  Puts a message: iodata, or text for a sink of text. Its bytes are copied. Runs in the calling process, in about 0.1 microseconds, and
  0.2 microseconds if the message is dropped.

  Returns `:ok`, or `{:error, error}` with the kind

    * `:overloaded` if the message is dropped;
    * `:timeout` if the sender waited for room too long;
    * `:closed` if the sink is gone;
    * `:no_server` if no output of this name runs.

  Raises an `ArgumentError` for another term.
  """
  @spec put(name, iodata | IO.chardata()) :: :ok | {:error, Error.t()}
  def put(output, message) when is_binary(message) and byte_size(message) < long() do
    case Process.get(key(output)) do
      {sender, epoch, nil} -> finish(output, message, Native.output_append(sender, message, epoch, false))
      {sender, epoch, :unicode} -> finish(output, message, Native.output_append_text(sender, message, epoch))
      _other -> Sender.put(output, message)
    end
  end

  def put(output, message), do: Sender.put(output, message)

  defp finish(_output, _message, :ok), do: :ok
  defp finish(output, message, result), do: Sender.retry(output, message, result)

  @doc """
  Puts the messages of a list, in order, as `put/2` puts one. Costs less than half for each.

  Returns `:ok`, or the error of the first message that was not accepted, with its `:position` in the list. The others were treated
  as by `put/2`.
  """
  @spec put_many(name, [iodata | IO.chardata()]) :: :ok | {:error, Error.t()}
  def put_many(output, messages) when is_list(messages), do: Sender.put_many(output, messages)

  def put_many(_output, other), do: raise(ArgumentError, "messages are a list, got: #{Describe.kind(other)}")

  @doc """
  Puts formatted text in the place of `:io.format/3`. The format and its arguments are those of `:io_lib.format/2`.

  Where no output has the name, the text goes to the I/O device of this name, such as `:user`, or to the group leader of the caller.

      iex> ExUnit.CaptureIO.capture_io(fn -> BeTree.Output.format(NoOutput, "~p ~ts~n", [1, "a"]) end)
      "1 a\\n"
  """
  @spec format(name, :io.format(), [term]) :: :ok | {:error, Error.t()}
  def format(output, format, arguments \\ [])

  def format(output, format, arguments) when is_atom(output) do
    text = format!(format, arguments)

    case Sender.fetch(output) do
      {:ok, {_sender, _epoch, nil}} -> put(output, :unicode.characters_to_binary(text))
      {:ok, _sender} -> put(output, text)
      {:error, %Error{kind: :no_server}} -> :io.put_chars(device(output), text)
      {:error, error} -> {:error, error}
    end
  end

  def format(other, _format, _arguments),
    do: raise(ArgumentError, "the name of an output is an atom, got: #{Describe.value(other)}")

  defp format!(format, arguments) do
    :io_lib.format(format, arguments)
  rescue
    _error ->
      reraise ArgumentError,
              "the format takes other arguments (`:io_lib.format/2`): #{Describe.kind(format)}, #{Describe.kind(arguments)}",
              Failure.without_arguments(__STACKTRACE__)
  end

  defp device(name) when name in [:standard_io, :standard_error], do: name
  defp device(name), do: Process.whereis(name) || Process.group_leader()

  @doc """
  Waits until all messages that were accepted before the call are delivered, dropped or lost.

  Returns `:ok`, or `{:error, error}` with the kind `:timeout` after `timeout` milliseconds, `:closed` or `:no_server`.
  """
  @spec flush(name, timeout) :: :ok | {:error, Error.t()}
  def flush(output, timeout \\ 5_000) do
    timeout = Check.timeout!(timeout: timeout)
    with {:ok, reply} <- Sender.request(output, :flush, Deadline.new(timeout)), do: reply
  end

  @doc """
  Returns the counts of an output. Runs in the calling process, on a dirty scheduler, in time linear in the number of senders. It waits
  for no process.

      iex> {:ok, _pid} = BeTree.Output.start_link(name: Pending, sink: {:process, self()})
      iex> BeTree.Output.put_many(Pending, ["a", "b"])
      iex> {:ok, stats} = BeTree.Output.stats(Pending)
      iex> {stats.accepted, stats.pending}
      {2, 2}

  Returns `{:error, error}` with the kind `:no_server` if no output of this name runs.
  """
  @spec stats(name) :: {:ok, Stats.t()} | {:error, Error.t()}
  def stats(output), do: Stats.read(output)

  @doc """
  Changes options of a running output: all of `start_link/1` but `:name`. Each applies to the next message, page or job.

  ## Options

  #{Options.docs(Settings.changes())}

  A new `:sink` is opened first. The old one then ends its present job, in at most four seconds. Pages that were put as bytes before a
  sink of text came are not converted.

  Returns `:ok`, or `{:error, error}` with the kind `:file` if the sink cannot be opened, which changes nothing, `:timeout` or
  `:no_server`. Raises an `ArgumentError` for a wrong option.
  """
  @spec configure(name, [option]) :: :ok | {:error, Error.t()}
  def configure(output, options \\ []) do
    changes = Settings.changes!(output, options)

    with {:ok, settings} <- Settings.fetch(output, :settings),
         {:ok, reply} <- Sender.request(output, {:configure, changes}, Deadline.new(settings.timeout)),
         do: reply
  end

  @doc """
  Acknowledges messages that a process received as the sink of an output. It gets no more messages before.
  """
  @spec ack(reference) :: :ok
  def ack(reference) when is_reference(reference), do: Sink.Process.acknowledge(reference)

  def ack(other),
    do: raise(ArgumentError, "an acknowledgement takes the reference of the message, got: #{Describe.value(other)}")
end
