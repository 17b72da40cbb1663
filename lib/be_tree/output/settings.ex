defmodule BeTree.Output.Settings do
  @moduledoc false
  # The options of an output, and the table in which its senders and its writer find them, the queue and each other.
  #
  # The supervisor of the output owns the table, so the queue, and with it all pages and counts, outlive the writer.

  alias BeTree.{Error, Output}
  alias BeTree.Input.{Describe, Options}
  alias BeTree.Output.Sink
  alias BeTree.Runtime.Native

  @enforce_keys [:name, :sink, :page, :linger, :buffer, :overflow, :timeout]
  defstruct @enforce_keys ++ [epoch: 0, encoding: nil, closed: nil]

  @typedoc "`:encoding` is that of the sink, and `:closed` the error of an output whose sink is gone."
  @type t :: %__MODULE__{
          name: Output.name(),
          sink: {module, term},
          page: pos_integer,
          linger: non_neg_integer,
          buffer: {bytes :: pos_integer, messages :: pos_integer},
          overflow: :block | :drop_new | :drop_old | :disconnect,
          timeout: timeout,
          epoch: non_neg_integer,
          encoding: :unicode | :latin1 | nil,
          closed: Error.t() | nil
        }

  @default_buffer [bytes: 0x40_0000, count: 100_000]
  @max_page 0x100_0000
  @max_buffer 0x7FFF_FFFF_FFFF_FFFF

  @definitions [
    sink: [
      type: {:check, Sink.expected(), &Sink.option?/1},
      required: true,
      doc: "where the messages go (see Sinks)"
    ],
    page: [
      type: {:integer, 1, @max_page},
      default: 16_384,
      doc: "the bytes that a sender collects before they enter the queue. A longer message goes alone, in its turn"
    ],
    linger: [
      type: {:integer, 0, 3_600_000},
      default: 5,
      doc: "milliseconds after which a page enters the queue although it is not full"
    ],
    buffer: [
      type: {:check, "a list of :bytes and :count, positive integers", &__MODULE__.buffer?/1},
      default: @default_buffer,
      default_doc: "`[bytes: 4_194_304, count: 100_000]`",
      doc: "the messages that the queue may hold, by `:bytes` and by `:count`"
    ],
    overflow: [
      type: {:one_of, [:block, :drop_new, :drop_old, :disconnect]},
      default: :block,
      doc: "what happens to a message without room (see Overflow)"
    ],
    timeout: [
      type: :timeout,
      default: 5_000,
      doc: "milliseconds that a sender waits for room with `overflow: :block`, and a function for the output's process"
    ]
  ]

  @doc "Returns the definitions of the options of `BeTree.Output.start_link/1` without the name."
  @spec definitions() :: Options.definitions()
  def definitions, do: @definitions

  @doc "Returns the definitions of the options of `BeTree.Output.configure/2`."
  @spec changes() :: Options.definitions()
  def changes,
    do: for({key, definition} <- @definitions, do: {key, Keyword.drop(definition, [:default, :default_doc, :required])})

  @doc "Returns whether `buffer` is a value of the option `:buffer`."
  @spec buffer?(term) :: boolean
  def buffer?(buffer) do
    Keyword.keyword?(buffer) and buffer != [] and
      Enum.all?(buffer, fn {name, value} ->
        name in [:bytes, :count] and is_integer(value) and value > 0 and value <= @max_buffer
      end)
  end

  @doc "Returns the checked options of a new output. Raises an `ArgumentError`."
  @spec new!(Output.name(), keyword) :: t
  def new!(name, options) do
    options = Options.validate!(options, @definitions)
    struct!(__MODULE__, [name: name] ++ for({key, value} <- options, do: {key, convert(key, value, name)}))
  end

  @doc "Returns the checked options that replace settings, with their values. Raises an `ArgumentError`."
  @spec changes!(Output.name(), keyword) :: keyword
  def changes!(name, options) do
    for {key, value} <- Options.validate!(options, changes()), do: {key, convert(key, value, name)}
  end

  defp convert(:sink, sink, name), do: Sink.resolve(sink, name)

  defp convert(:buffer, buffer, _name) do
    buffer = Keyword.merge(@default_buffer, buffer)
    {buffer[:bytes], buffer[:count]}
  end

  defp convert(_key, value, _name), do: value

  @doc "Makes the table of an output. The calling process owns it."
  @spec new_table(t) :: :ok
  def new_table(%{buffer: {bytes, messages}} = settings) do
    :ets.new(settings.name, [:named_table, :public, read_concurrency: true])
    queue = Native.output_new(page(settings), bytes, messages, settings.overflow)
    :ets.insert(settings.name, [{:queue, queue}, {:settings, settings}])
    :ok
  end

  @doc "Replaces the settings, and returns them with their epoch. Senders notice it with their next message."
  @spec put(reference, t) :: t
  def put(queue, %{buffer: {bytes, messages}} = settings) do
    epoch = Native.output_configure(queue, page(settings), bytes, messages, settings.overflow)
    settings = %{settings | epoch: epoch}
    :ets.insert(settings.name, {:settings, settings})
    settings
  end

  defp page(%{page: page, buffer: {bytes, _messages}}), do: min(page, bytes)

  @doc "Returns the value of a row of the table: `:queue`, `:settings` or `:writer`."
  @spec fetch(Output.name(), atom) :: {:ok, term} | {:error, Error.t()}
  def fetch(name, row) do
    case :ets.lookup(name, row) do
      [{^row, value}] -> {:ok, value}
      [] -> missing(name)
    end
  rescue
    ArgumentError -> missing(name)
  end

  defp missing(name), do: {:error, %Error{kind: :no_server, message: "no output #{Describe.value(name)} runs"}}

  @doc "Registers the calling process as the writer."
  @spec put_writer(Output.name()) :: true
  def put_writer(name), do: :ets.insert(name, {:writer, self()})

  @doc "Notes the process that calls the sink."
  @spec put_runner(Output.name(), pid) :: true
  def put_runner(name, runner), do: :ets.insert(name, {:runner, runner})

  @doc "Returns the senders: their processes and their NIF resources."
  @spec senders(Output.name()) :: [{pid, reference}]
  def senders(name), do: for([pid, sender] <- :ets.match(name, {{:sender, :"$1"}, :"$2"}), do: {pid, sender})

  @doc "Returns the sender of a process, a new one if it has none."
  @spec sender(Output.name(), reference, pid) :: {:former | :new, reference}
  def sender(name, queue, pid) do
    case :ets.lookup(name, {:sender, pid}) do
      [{_key, sender}] ->
        {:former, sender}

      [] ->
        sender = Native.output_sender(queue)
        :ets.insert(name, {{:sender, pid}, sender})
        {:new, sender}
    end
  end

  @doc "Ends the sender of a process that ended."
  @spec end_sender(Output.name(), pid) :: :ok
  def end_sender(name, pid) do
    # The row goes last, so a writer that is killed between leaves it to the next one.
    for [{key, sender}] <- [:ets.lookup(name, {:sender, pid})] do
      Native.output_end(sender)
      :ets.delete(name, key)
    end

    :ok
  end
end
