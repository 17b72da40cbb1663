defmodule AdsTest do
  use ExUnit.Case

  setup do
    for {id, _targeting, _price, _left} <- Ads.list(), do: :ok = Ads.delete(id)
    :ok
  end

  defp request(method, path, body \\ "") do
    url = ~c"http://127.0.0.1:#{Ads.Web.port()}#{path}"
    request = if method in [:get, :delete], do: {url, []}, else: {url, [], ~c"text/plain", body}
    {:ok, {{_version, status, _reason}, _head, body}} = :httpc.request(method, request, [], body_format: :binary)
    {status, body}
  end

  test "the campaign with the highest price wins until its budget is used up" do
    assert request(:put, "/campaigns/1?price=100&budget=5", "country in ('CA', 'US')") == {204, ""}
    assert request(:put, "/campaigns/2?price=250&budget=1", "age >= 21 and interests one of ('ski')") == {204, ""}
    skier = ~s({"country": "CA", "age": 34, "interests": ["ski", "music"]})
    assert request(:post, "/bid", skier) == {200, ~s({"campaign":2,"price":250}\n)}
    assert request(:post, "/bid", skier) == {200, ~s({"campaign":1,"price":100}\n)}
    assert request(:post, "/bid", ~s({"country": "FR"})) == {204, ""}
    assert {200, page} = request(:get, "/")
    assert page =~ "<tr><td>1<td>country in ('CA', 'US')<td>100<td>4</tr>"
    assert page =~ "<tr><td>2<td>age &gt;= 21 and interests one of ('ski')<td>250<td>0</tr>"
  end

  test "many bids at once use a budget exactly" do
    assert request(:put, "/campaigns/1?price=100&budget=30", "country = 'CA'") == {204, ""}

    bids =
      1..100
      |> Task.async_stream(fn _bid -> Ads.bid(%{country: "CA"}) end, timeout: :infinity)
      |> Enum.map(&elem(&1, 1))

    assert Enum.frequencies(bids) == %{{:ok, {1, 100}} => 30, {:ok, nil} => 70}
  end

  test "a refused campaign changes nothing, and its error names the column" do
    assert {400, message} = request(:put, "/campaigns/1?price=1&budget=1", "country = 7")
    assert message =~ "country = 7\n              ^"
    assert {400, message} = request(:put, "/campaigns/1?price=1", "country = 'CA'")
    assert message =~ "budget"
    assert {400, message} = request(:post, "/bid", "{}")
    assert message =~ "country"
    assert Ads.list() == []
  end

  test "an explanation names the predicate that is false" do
    assert request(:put, "/campaigns/1?price=1&budget=1", "country = 'CA' and age >= 21") == {204, ""}
    assert {200, text} = request(:post, "/campaigns/1/why", ~s({"country": "CA", "age": 20}))
    assert text =~ "age >= 21: false (age is 20)"
    assert request(:delete, "/campaigns/1") == {204, ""}
    assert {404, _text} = request(:delete, "/campaigns/1")
    assert {404, _text} = request(:post, "/campaigns/1/why", ~s({"country": "CA"}))
  end

  test "a restart keeps campaigns and budgets, and moves them to a new schema" do
    schema = Application.fetch_env!(:ads, :schema)
    assert request(:put, "/campaigns/1?price=100&budget=7", "country = 'CA'") == {204, ""}
    assert {400, _message} = request(:put, "/campaigns/2?price=100&budget=7", "device = 'tv'")

    on_exit(fn -> restart(schema) end)
    restart(schema ++ [device: {:string, optional: true}])
    assert request(:put, "/campaigns/2?price=200&budget=7", "device = 'tv'") == {204, ""}
    assert request(:post, "/bid", ~s({"country": "CA"})) == {200, ~s({"campaign":1,"price":100}\n)}
    assert request(:post, "/bid", ~s({"country": "CA", "device": "tv"})) == {200, ~s({"campaign":2,"price":200}\n)}
    assert {200, page} = request(:get, "/")
    assert page =~ "Attributes: country, age, interests, device."
    # The present schema has no attribute of the second campaign.
    assert :ok = Ads.delete(2)
  end

  defp restart(schema) do
    :ok = Application.stop(:ads)
    Application.put_env(:ads, :schema, schema)
    :ok = Application.start(:ads)
  end
end
