defmodule BeTree.Output.Sink do
  @moduledoc """
  The behaviour of a sink of `BeTree.Output`: a module that writes messages somewhere.

      defmodule Upload do
        @behaviour BeTree.Output.Sink

        @impl true
        def open(url), do: {:ok, url}

        @impl true
        def write(messages, url) do
          case MyHTTP.post(url, messages) do
            :ok -> {:ok, url}
            {:error, reason} -> {:error, reason, url}
          end
        end
      end

      {BeTree.Output, name: Uploads, sink: {Upload, "https://logs.example.com"}}

  One process of the output calls the callbacks, one after the other, and may block in them as long as it likes. If a callback
  raises or its process is killed, the messages of the call count as lost, and the sink is opened again. The log then has the
  exception's class and message with the stack trace. Exceptions that print a value, such as `MatchError`, appear without their message,
  because the value may be one of your messages. The reason of `{:error, reason, state}` is in the log if it is an atom, a text or an
  exception, so put no message into it.
  """

  @type state :: term

  @typedoc "The result of a call that writes. With `:error` and `:stop` its messages count as lost."
  @type written :: {:ok, state} | {:error, term, state} | {:stop, term, state}

  @doc """
  Opens the sink. After `:error` the output tries again, first after 10 milliseconds and at last once a second. `:closed` means that the
  sink can never be opened: the output closes.
  """
  @callback open(argument :: term) :: {:ok, state} | {:error, term} | {:closed, term}

  @doc "Writes messages, or whole pages (`c:form/0`). After `:stop` the sink is opened again."
  @callback write([binary], state) :: written

  @doc "Tells the sink that messages were dropped before the next ones. Without this callback `c:write/2` gets a line of text."
  @callback dropped(pos_integer, state) :: written

  @doc "Closes the sink: the output stops, or has another sink now."
  @callback close(state) :: term

  @doc "Ends the connection after the overflow of an output with `overflow: :disconnect`, beside a call that may be blocked."
  @callback disconnect(argument :: term) :: term

  @doc "Returns `:messages`, the default, or `:pages`: a binary then holds the messages of a page, one after the other."
  @callback form() :: :messages | :pages

  @doc "Returns the encoding of a sink of text, to which `BeTree.Output.put/2` converts, or `nil` for bytes, the default."
  @callback encoding(state) :: :unicode | :latin1 | nil

  @optional_callbacks dropped: 2, close: 1, disconnect: 1, form: 0, encoding: 1

  @doc false
  # Returns the module of an option and its argument.
  @spec resolve(term, BeTree.Output.name()) :: {module, term}
  def resolve({:process, process}, name), do: {__MODULE__.Process, {process, name}}
  def resolve({:device, device}, _name), do: {__MODULE__.Device, device}
  def resolve({:file, path}, _name), do: {__MODULE__.File, IO.chardata_to_string(path)}
  def resolve({:tcp, socket}, _name), do: {__MODULE__.Socket, socket}
  def resolve({module, argument}, _name), do: {module, argument}

  @expected "{:process, pid or name}, {:device, pid or name}, {:file, path}, {:tcp, socket} or {module, argument}"

  @doc false
  # Returns the form of the option `:sink` as text.
  @spec expected() :: String.t()
  def expected, do: @expected

  @doc false
  # Returns whether the option `:sink` has one of its forms.
  @spec option?(term) :: boolean
  def option?({kind, process}) when kind in [:process, :device],
    do: is_pid(process) or (is_atom(process) and process != nil)

  def option?({:file, path}), do: is_binary(path) or (is_list(path) and List.ascii_printable?(path))
  def option?({:tcp, socket}), do: is_port(socket) or match?({:"$inet", _module, _socket}, socket)

  def option?({module, _argument}) when is_atom(module),
    do: Code.ensure_loaded?(module) and function_exported?(module, :open, 1) and function_exported?(module, :write, 2)

  def option?(_other), do: false

  @doc false
  @spec form(module) :: :messages | :pages
  def form(module), do: if(function_exported?(module, :form, 0), do: module.form(), else: :messages)

  @doc false
  @spec encoding(module, state) :: :unicode | :latin1 | nil
  def encoding(module, state), do: if(function_exported?(module, :encoding, 1), do: module.encoding(state))

  @doc false
  @spec dropped(module, pos_integer, state) :: written
  def dropped(module, count, state) do
    if function_exported?(module, :dropped, 2),
      do: module.dropped(count, state),
      else: module.write(["BeTree.Output: #{count} messages dropped\n"], state)
  end

  @doc false
  @spec close(module, state) :: term
  def close(module, state), do: if(function_exported?(module, :close, 1), do: module.close(state))

  @doc false
  @spec disconnect(module, term) :: term
  def disconnect(module, argument), do: if(function_exported?(module, :disconnect, 1), do: module.disconnect(argument))
end
