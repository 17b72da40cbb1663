defmodule BeTree.Tenants.Dump do
  @moduledoc false
  # A tenant as bytes for another store: its expressions, its settings, and its days by origin.
  #
  #     "BTTENANT", version        9 bytes
  #     SHA-256 of the schema      32 bytes
  #     SHA-256 of all other bytes 32 bytes
  #     length of the content      64 bits
  #     content, deflated          the external term of {tenant, parts, debt, days}
  #
  # `tenant` is the external term of the tenant. `parts` are those of `BeTree.Tenants.change/4`. `days` is a list of `{day, entries}`, each
  # entry with its origin, blob, counts (`Usage.to_list/1`) and digest.
  #
  # A dump is untrusted input: its digest finds damage, not forgery. So the content has data terms only, no functions. `Change.new/2`
  # checks the parts, and the index module the blobs.

  alias BeTree.{Domain, Error}
  alias BeTree.Error.Attempt
  alias BeTree.Input.Check
  alias BeTree.Input.Subscription.Id
  alias BeTree.Tenants.{Body, Change, Clock, Copy, Day, Declaration, Directory, Quota, Shard, Usage}
  alias BeTree.Tenants.Store.{Blobs, Place, Table}

  require Place

  @magic "BTTENANT"
  @version 1
  @digest_bytes 32
  @head_bytes byte_size(@magic) + 1 + 2 * @digest_bytes + 8
  @max_content_bytes 0x4000_0000
  # About the bytes of statistics that the index module checks in one call, in an instance of its own.
  @max_checked_bytes 0x100_0000
  # A debt is the burst of a quota and the fuel of a few matches. The sum with a position of the bucket has 63 bits.
  @max_debt 0x3FFF_FFFF_FFFF_FFFF
  # The atoms of a content. They are known here, so a dump with others cannot be decoded.
  @atoms [nil, true, false, :put, :stats, :quota, :instance, :constants, :shared, :own, :rate, :burst, :memory] ++
           [:overflow, :error, :sample, :uniques, :sum, :top, :quantiles, :members]

  @typedoc "A dump that was checked. The part `:put` of the change has all expressions of the tenant."
  @type content :: %{
          tenant: term,
          change: Body.change(),
          debt: {non_neg_integer, non_neg_integer},
          days: [{Clock.day(), Day.t()}]
        }

  ## Making a dump

  @doc "Returns the dump of a tenant as the store has it."
  @spec make(Directory.t(), term) :: {:ok, binary} | {:error, Error.t()}
  def make(directory, tenant) do
    with :ok <- check_portable(tenant),
         # First, because what leaves the body is in the days.
         {:ok, body} <- Copy.read(directory, tenant),
         {:ok, records} <- Copy.days(directory, tenant, kept_days(directory.options)) do
      days = for {day, record} <- Enum.sort(with_own(records, body, directory)), do: {day, entries(record)}
      content = {Table.key(tenant), parts(body), body.debt, days}
      encode(:erlang.term_to_binary(content, minor_version: 2), directory.options.schema)
    end
  end

  defp check_portable(tenant) do
    with {:error, %Error{kind: :type} = error} <- Id.check(tenant, :portable) do
      message = "a tenant whose name has a process, port, reference or function in it cannot be dumped"
      {:error, %{error | message: message}}
    end
  end

  defp kept_days(%{clock: clock, retention: retention}), do: Clock.kept_days(clock, retention)

  # The figures that are in the body become entries of its origin.
  defp with_own(records, %{origin: origin} = body, directory) do
    blobs = for {day, blob} <- List.wrap(body.statistics), do: {day, {blob, Usage.zero()}}
    bills = for {day, totals} <- body.usage, do: {day, {nil, totals}}

    Enum.reduce(blobs ++ bills, records, fn {day, {blob, totals}}, records ->
      record = Map.get(records, day, %{})
      {settled, stored, digest} = Map.get(record, origin, {nil, Usage.zero(), directory.digest})
      entry = {settled || blob, Usage.later(stored, totals), digest}
      Map.put(records, day, Map.put(record, origin, entry))
    end)
  end

  defp entries(record),
    do: for({origin, {blob, totals, digest}} <- Enum.sort(record), do: {origin, blob, Usage.to_list(totals), digest})

  defp parts(body) do
    put =
      for {id, {text, constants, declaration}} <- Enum.sort(body.expressions),
          do: {id, text, constants: constants, stats: Declaration.option(declaration)}

    stats = if body.stats == :default, do: [], else: [stats: Declaration.option(body.stats)]
    quota = if body.quota == :default, do: [], else: [quota: Quota.option(body.quota)]
    [put: put, instance: body.instance] ++ stats ++ quota
  end

  defp encode(content, _schema) when byte_size(content) > @max_content_bytes do
    message =
      "the dump of the tenant has #{byte_size(content)} bytes; expected #{@max_content_bytes} at most: divide the tenant"

    {:error, %Error{kind: :out_of_memory, message: message}}
  end

  defp encode(content, schema) do
    identity = <<@magic, @version, schema_digest(schema)::binary>>
    rest = IO.iodata_to_binary([<<byte_size(content)::64>>, Blobs.deflate(content)])
    {:ok, IO.iodata_to_binary([identity, digest(identity, rest), rest])}
  end

  defp schema_digest(schema), do: :crypto.hash(:sha256, Domain.encode(schema))
  defp digest(identity, rest), do: :crypto.hash(:sha256, [identity, rest])

  ## Reading a dump

  @doc "Returns the content of a dump. `directory` is that of the tenants into which it comes."
  @spec read(Directory.t(), binary) :: {:ok, content} | {:error, Error.t()}
  def read(directory, dump) do
    %{schema: schema} = directory.options
    first..last//1 = kept_days(directory.options)

    with {:ok, bytes} <- open(dump, schema),
         {:ok, {key, parts, debt, days}} <- decode(bytes),
         {:ok, tenant} <- tenant(key),
         {:ok, change} <- change(parts, schema),
         :ok <- check_debt(debt),
         {:ok, days} <- days(days, last),
         :ok <- check_blobs(days, directory) do
      kept = for {day, record} <- days, day >= first, do: {day, record}
      {:ok, %{tenant: tenant, change: change, debt: debt, days: kept}}
    end
  end

  defp open(<<@magic, @version, of_schema::binary-@digest_bytes, digest::binary-@digest_bytes, rest::binary>>, schema) do
    identity = <<@magic, @version, of_schema::binary>>

    cond do
      digest(identity, rest) != digest -> damaged("its bytes are not those that were written")
      of_schema != schema_digest(schema) -> other_schema()
      true -> inflate(rest)
    end
  end

  defp open(<<@magic, version, _rest::binary>>, _schema) when version != @version,
    do: damaged("its version is #{version}, expected #{@version}")

  defp open(dump, _schema) when byte_size(dump) < @head_bytes, do: damaged("it is cut off")
  defp open(_dump, _schema), do: damaged("it does not begin as a dump of a tenant")

  defp other_schema do
    message = "the dump is of tenants with another schema; restore it into tenants with that schema"
    {:error, %Error{kind: :other_schema, message: message}}
  end

  defp damaged(reason),
    do: {:error, %Error{kind: :damaged, message: "the bytes are no whole dump of a tenant: #{reason}"}}

  defp inflate(<<length::64, deflated::binary>>) when length <= @max_content_bytes do
    stream = :zlib.open()

    try do
      :ok = :zlib.inflateInit(stream)
      inflate(stream, :zlib.safeInflate(stream, deflated), [], length)
    rescue
      ErlangError -> damaged("it cannot be inflated")
    after
      :zlib.close(stream)
    end
  end

  defp inflate(_other), do: damaged("its length is wrong")

  # Never inflates much more than the length.
  defp inflate(stream, {state, part}, parts, left) do
    left = left - IO.iodata_length(part)
    parts = [parts | part]

    cond do
      left < 0 or (state == :finished and left > 0) -> damaged("its length is wrong")
      state == :finished -> {:ok, IO.iodata_to_binary(parts)}
      true -> inflate(stream, :zlib.safeInflate(stream, []), parts, left)
    end
  end

  defp decode(bytes) do
    content = :erlang.binary_to_term(bytes, [:safe])

    if plain?(content) and match?({key, _parts, _debt, _days} when is_binary(key), content),
      do: {:ok, content},
      else: damaged("its content has another form")
  rescue
    ArgumentError -> damaged("its content has another form")
  end

  # Nothing that could run code, and no improper list.
  defp plain?(term) when is_binary(term) or is_integer(term), do: true
  defp plain?(term) when is_atom(term), do: term in @atoms
  defp plain?([head | tail]), do: plain?(head) and (is_list(tail) and plain?(tail))
  defp plain?([]), do: true
  defp plain?(term) when is_tuple(term), do: term |> Tuple.to_list() |> plain?()
  defp plain?(_other), do: false

  defp tenant(key) do
    tenant = :erlang.binary_to_term(key, [:safe])
    with :ok <- check_portable(tenant), do: {:ok, tenant}
  rescue
    ArgumentError -> damaged("its tenant has an atom that this node does not know, or is no term")
  end

  # A dump has all expressions, so nothing is deleted.
  defp change(parts, schema) do
    if Keyword.keyword?(parts), do: parts |> Keyword.delete(:delete) |> Change.new(schema), else: other_form()
  rescue
    ArgumentError -> other_form()
  end

  defp other_form, do: damaged("its settings have another form")

  defp check_debt({fuel, since})
       when is_integer(fuel) and fuel in 0..@max_debt and is_integer(since) and since in 0..@max_debt,
       do: :ok

  defp check_debt(_other), do: damaged("its debt has another form")

  defp days(days, last) do
    with true <- Check.proper_list?(days),
         {:ok, days} <- Attempt.map(days, &day(&1, last)),
         true <- distinct?(days) do
      {:ok, days}
    else
      _other -> damaged("its days have another form")
    end
  end

  defp day({day, entries}, last) when Place.is_day(day) and is_list(entries) do
    with true <- day <= last,
         {:ok, entries} <- Attempt.map(entries, &entry/1),
         true <- distinct?(entries),
         do: {:ok, {day, Map.new(entries)}}
  end

  defp day(_other, _last), do: :error

  defp entry({origin, blob, counts, digest}) when is_binary(blob) or blob == nil do
    with true <- Day.origin?(origin) and digest?(digest),
         {:ok, totals} <- Usage.from_list(counts),
         do: {:ok, {origin, {blob, totals, digest}}}
  end

  defp entry(_other), do: :error

  defp digest?(digest), do: is_binary(digest) and digest =~ ~r/\A[0-9a-f]{64}\z/

  defp distinct?(pairs), do: pairs |> Enum.uniq_by(&elem(&1, 0)) |> length() == length(pairs)

  # The module reads each blob, adds its figures to those of the day's other blobs, and says to which day it belongs.
  defp check_blobs(days, directory) do
    blobs = for {day, record} <- days, {_origin, {blob, _totals, _digest}} <- record, blob != nil, do: {day, blob}
    blobs |> Enum.chunk_while({[], 0}, &chunk/2, &last_chunk/1) |> Attempt.each(&check_chunk(&1, directory))
  end

  defp chunk({_day, blob} = entry, {chunk, bytes}) do
    bytes = bytes + byte_size(blob)
    if bytes < @max_checked_bytes, do: {:cont, {[entry | chunk], bytes}}, else: {:cont, [entry | chunk], {[], 0}}
  end

  defp last_chunk({[], 0}), do: {:cont, nil}
  defp last_chunk({chunk, _bytes}), do: {:cont, chunk, nil}

  # The number of a day stands in the place of a tenant's.
  defp check_chunk(chunk, directory) do
    numbers = chunk |> Enum.map(&elem(&1, 0)) |> Enum.uniq() |> Enum.with_index() |> Map.new()
    blobs = for {day, blob} <- chunk, do: {Map.fetch!(numbers, day), blob}

    case Shard.report(directory.guest, {:all, :all, [[:tenant, :day]], []}, blobs) do
      {:ok, [entries]} ->
        found = for {key, _events, _matched, _matches, _figures} <- entries, do: key
        expected = for {day, number} <- numbers, do: [number, day]

        if Enum.sort(found) == Enum.sort(expected),
          do: :ok,
          else: damaged("statistics are of another day than their entry")

      {:error, %Error{kind: :syntax} = error} ->
        damaged("its statistics are not readable: #{error.message}")

      {:error, error} ->
        {:error, error}
    end
  end
end
