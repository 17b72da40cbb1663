defmodule BeTree.EncodersTest do
  # The encoders for libraries of JSON. Jason and JSON are not among the dependencies of the tests. Where one is missing, a protocol with
  # the same functions stands in for it while the encoders are compiled.
  use ExUnit.Case, async: false

  alias BeTree.Encoders.Plain
  alias BeTree.Error
  alias BeTree.Rules.Notice

  @structs [BeTree.Error, BeTree.Explanation, BeTree.Explanation.Node, BeTree.Rules.Notice]

  defp explanation(event) do
    tree = BeTree.new!(age: :integer, name: {:string, optional: true})
    BeTree.insert!(tree, 1, "age >= 21 and not (name = 'x')")
    BeTree.explain!(tree, event, 1)
  end

  describe "a map for JSON" do
    test "of an explanation has its nodes, and null for an undefined value" do
      assert %{id: 1, match: true, root: %{kind: :and, verdict: true, children: [age, %{kind: :not, children: [name]}]}} =
               Plain.map(explanation(%{age: 30}))

      assert age == %{kind: :predicate, verdict: true, attribute: "age", text: "age >= 21", actual: 30}
      assert name.actual == nil
    end

    test "of a long value has its size" do
      %{root: %{children: [_age, %{children: [name]}]}} =
        Plain.map(explanation(%{age: 30, name: String.duplicate("a", 5_000)}))

      assert name.actual_omitted == 5_000
      refute Map.has_key?(name, :actual)
    end

    test "of an error has the fields that are set" do
      {:error, error} = BeTree.insert(BeTree.new!(age: :integer), 1, "age >=")
      assert %{kind: :syntax, text: "age >=", column: column, message: message} = Plain.map(error)
      assert is_integer(column) and is_binary(message)
      refute Map.has_key?(Plain.map(error), :retry_after)
    end

    test "of a notice has its values" do
      notice = %Notice{rule: "r", name: nil, values: %{"a" => nil, "b" => "x", "c" => <<255>>}}

      assert Plain.map(notice) == %{
               rule: "r",
               name: nil,
               values: %{"a" => nil, "b" => "x", "c" => "a binary of 1 byte"}
             }

      assert %{number: 3, partition: 0} = Plain.map(%{notice | number: 3, partition: 0})
    end
  end

  # A protocol and a function that makes text of a map stand for each library.
  unless Code.ensure_loaded?(Jason.Encoder) do
    defprotocol Elixir.Jason.Encoder do
      def encode(value, options)
    end

    defmodule Elixir.Jason.Encode do
      def map(map, options), do: {:jason, map, options}
    end
  end

  unless Code.ensure_loaded?(JSON.Encoder) do
    defprotocol Elixir.JSON.Encoder do
      def encode(value, encoder)
    end
  end

  describe "the encoders" do
    setup do
      compiled = Code.compile_file("lib/be_tree/encoders.ex")

      on_exit(fn ->
        for {module, _bytes} <- compiled do
          :code.delete(module)
          :code.purge(module)
        end
      end)

      {:ok, compiled: for({module, _bytes} <- compiled, do: module)}
    end

    test "are compiled for each struct where Jason and JSON are loaded", %{compiled: compiled} do
      for protocol <- [Jason.Encoder, JSON.Encoder], struct <- @structs do
        assert Module.concat(protocol, struct) in compiled
      end
    end

    test "pass the map of the struct to the library" do
      error = %Error{kind: :type, message: "no"}
      assert {:jason, %{kind: :type, message: "no"}, :options} = encode(Jason.Encoder.BeTree.Error, error, :options)
      encoder = fn map, _encoder -> {:json, map} end
      assert encode(JSON.Encoder.BeTree.Error, error, encoder) == {:json, %{kind: :type, message: "no"}}
    end

    defp encode(implementation, struct, second), do: apply(implementation, :encode, [struct, second])
  end
end
