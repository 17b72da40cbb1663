defmodule BeTree.Call.Reply do
  @moduledoc false
  # Decodes the replies of a guest, the content of its outbox (docs/contributing/abi.md). Users may replace the guest, so a reply is not
  # trusted: one of another shape is an error of kind :bad_module.

  alias BeTree.{Domain, Error}
  alias BeTree.Input.{Describe, Limits, Subscription}
  alias BeTree.Target.Ids

  @kinds [
    :syntax,
    :unknown_attribute,
    :type,
    :out_of_bounds,
    :missing_attribute,
    :duplicate_id,
    :not_found,
    :out_of_memory,
    :out_of_fuel,
    :timeout,
    :trap
  ]

  @counts [
    :expressions,
    :predicates,
    :strings,
    :nodes,
    :entries,
    :unindexed,
    :depth,
    :code_bytes,
    :memory_bytes
  ]

  @doc "Returns the term in `binary`, if it makes no new atoms and is not compressed."
  @spec term(binary) :: {:ok, term} | {:error, Error.t()}
  # A compressed term may claim a size far beyond the guest's own memory.
  def term(<<131, 80, _rest::binary>>), do: {:error, bad("a compressed term")}

  def term(binary) do
    {:ok, :erlang.binary_to_term(binary, [:safe])}
  rescue
    ArgumentError -> {:error, bad("bytes that are no term")}
  end

  @doc "Returns the attributes in a schema that `BeTree.Domain.encode/1` encoded. It may come from another program."
  @spec schema(binary) :: {:ok, [Domain.t()]} | {:error, Error.t()}
  def schema(binary) do
    # The atoms of a schema are those of this module, which a VM in interactive mode loads only when it is called.
    {:module, Domain} = Code.ensure_loaded(Domain)
    with {:ok, term} <- term(binary), do: Domain.from_term(term)
  end

  # No guest counts beyond 64 bits. A larger integer would take seconds to print.
  @max_u64 Limits.max_u64()

  @doc "Returns whether `value` is an integer of at least `least` that a guest can have counted."
  defguard is_count(value, least) when is_integer(value) and value >= least and value <= @max_u64

  defguardp is_number_or_nil(value, least) when value == nil or is_count(value, least)

  # Messages of a guest go to logs, so they are cut.
  @max_message_bytes 4_096

  @doc "Returns the refusal in `binary`. A long message is cut, and says how many bytes are left out."
  @spec refusal(binary) :: Error.t()
  def refusal(binary) do
    case term(binary) do
      # The fault lies in a text of several lines.
      {:ok, {kind, message, name, column, position, line, text}} when is_count(line, 1) and is_binary(text) ->
        %{refused({kind, message, name, column, position}) | line: line, text: text}

      {:ok, term} ->
        refused(term)

      {:error, error} ->
        error
    end
  end

  defp refused({kind, message, attribute, column, position})
       when kind in @kinds and is_binary(message) and (is_binary(attribute) or attribute == nil) and
              is_number_or_nil(column, 1) and is_number_or_nil(position, 0) do
    case beginning(message) do
      {:ok, beginning} ->
        message = message |> shortened(beginning) |> mended(kind)
        %Error{kind: kind, message: message, attribute: attribute, column: column, position: position}

      :error ->
        bad("an error of kind #{inspect(kind)} whose message is not UTF-8")
    end
  end

  defp refused(other), do: bad("an error of the wrong shape: #{Describe.kind(other)}")

  # A module knows no function of Elixir.
  defp mended(message, :duplicate_id), do: String.replace_suffix(message, "; delete it first", "; `put` replaces it")
  defp mended(message, _kind), do: message

  # Returns the whole characters among the first bytes.
  defp beginning(message) do
    bytes = binary_part(message, 0, min(byte_size(message), @max_message_bytes))

    case :unicode.characters_to_binary(bytes) do
      ^bytes -> {:ok, bytes}
      {:incomplete, complete, _part} when byte_size(bytes) < byte_size(message) -> {:ok, complete}
      _not_utf8 -> :error
    end
  end

  defp shortened(message, message), do: message

  defp shortened(message, beginning) do
    "#{beginning}... (#{byte_size(message) - byte_size(beginning)} bytes are left out)"
  end

  @doc "Returns `:ok` if `binary` is the empty reply of an operation without output."
  @spec nothing(binary) :: :ok | {:error, Error.t()}
  def nothing(""), do: :ok
  def nothing(binary), do: {:error, bad("#{byte_size(binary)} bytes instead of an empty reply")}

  @doc "Returns the names of the counts and sizes that a guest returns."
  @spec counts() :: [atom]
  def counts, do: @counts

  @doc "Returns the counts and sizes in `binary`, if all of them are present."
  @spec info(binary) :: {:ok, %{atom => non_neg_integer}} | {:error, Error.t()}
  def info(binary) do
    with {:ok, pairs} <- term(binary) do
      if proper?(pairs) and Enum.all?(pairs, &count?/1) and
           Enum.sort(@counts) == pairs |> Enum.map(&elem(&1, 0)) |> Enum.sort() do
        {:ok, Map.new(pairs)}
      else
        {:error, bad("counts of the wrong shape: #{Describe.kind(pairs)}")}
      end
    end
  end

  defp count?({name, count}), do: is_atom(name) and is_count(count, 0)
  defp count?(_other), do: false

  @doc "Returns the rows of the counts of a part of a profile, for a schema of this many attributes."
  @spec counts(binary, non_neg_integer) :: {:ok, [tuple]} | {:error, Error.t()}
  def counts(binary, attributes) do
    with {:ok, rows} <- term(binary) do
      if proper?(rows) and Enum.all?(rows, &row?(&1, attributes)),
        do: {:ok, rows},
        else: {:error, bad("rows of the wrong shape: #{Describe.kind(rows)}")}
    end
  end

  defp row?({at, lookups, nodes}, attributes) do
    attribute?(at, attributes) and is_count(lookups, 0) and is_count(nodes, 0)
  end

  defp row?({id, tests, holds, at}, attributes) when is_boolean(holds) do
    is_count(id, 0) and is_count(tests, 0) and attribute?(at, attributes)
  end

  defp row?({at, entries, proven, ids}, attributes) do
    attribute?(at, attributes) and is_count(entries, 0) and is_count(proven, 0) and proper?(ids) and
      Enum.all?(ids, &is_count(&1, 0))
  end

  defp row?(_other, _attributes), do: false

  defp attribute?(nil, _attributes), do: true
  defp attribute?(at, attributes), do: is_count(at, 0) and at < attributes

  defp proper?(list), do: is_list(list) and not List.improper?(list)

  @doc "Returns the error for a guest whose reply is wrong. `reply` describes it, and completes the sentence."
  @spec bad(String.t()) :: Error.t()
  def bad(reply), do: %Error{kind: :bad_module, message: "the index module returned #{reply}"}

  @doc """
  Returns the error for the refusal of one of `count` subscriptions, with the text and the id of that subscription, which `fetch` returns
  by its position. A server has keys for ids (`BeTree.Target.Ids`).
  """
  @spec blame(Error.t(), non_neg_integer, (non_neg_integer -> Subscription.wire())) :: Error.t()
  def blame(%Error{position: nil} = error, _count, _fetch), do: error

  def blame(%Error{position: position} = error, count, fetch) when position < count do
    {key, text, _constants} = fetch.(position)
    %{error | text: text, message: "subscription #{Ids.text(key)}: #{message(error, key)}"}
  end

  def blame(%Error{position: position}, count, _fetch),
    do: bad("an error of subscription #{position}, and there are #{count}")

  # The guest's message has the number of the id. This one has the term.
  defp message(%Error{kind: :duplicate_id}, {_number, _term} = key),
    do: "a subscription with the id #{Ids.text(key)} exists; `put` replaces it"

  defp message(%Error{message: message}, _key), do: message
end
