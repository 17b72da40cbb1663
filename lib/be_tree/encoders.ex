# Encoders of JSON, for the libraries that are there when BeTree is compiled: Jason, and JSON of Elixir 1.18.

if Code.ensure_loaded?(Jason.Encoder) do
  defimpl Jason.Encoder, for: [BeTree.Error, BeTree.Explanation, BeTree.Explanation.Node, BeTree.Rules.Notice] do
    def encode(struct, options), do: struct |> BeTree.Encoders.Plain.map() |> Jason.Encode.map(options)
  end
end

if Code.ensure_loaded?(JSON.Encoder) do
  defimpl JSON.Encoder, for: [BeTree.Error, BeTree.Explanation, BeTree.Explanation.Node, BeTree.Rules.Notice] do
    def encode(struct, encoder), do: struct |> BeTree.Encoders.Plain.map() |> encoder.(encoder)
  end
end
