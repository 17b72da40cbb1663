%% The campaigns of `ads` with BeTree itself, beyond erl_betree: campaigns change while many processes search, events are
%% JSON or batches, and errors and matches are explained.
-module(ads_live).

-export([new/1, remove/2, publish/1, matching/2, matching_many/2, explain/3, child_spec/0, main/0]).

%% The name of an Elixir module is an atom that begins with `Elixir.`.
-define(BETREE, 'Elixir.BeTree').

domains() ->
    [{country, string},
     {device, {string, [{optional, true}]}},
     {age, {integer, [{optional, true}]}}].

%% Returns a tree of all campaigns, which are {Id, Expression}, or an error with a message.
new(Campaigns) ->
    {ok, Tree} = ?BETREE:new(domains()),
    case ?BETREE:insert_all(Tree, Campaigns) of
        {ok, _Count} -> {ok, Tree};
        {error, Error} -> {error, 'Elixir.Exception':message(Error)}
    end.

remove(Tree, Id) ->
    ?BETREE:delete(Tree, Id).

%% Returns an index of the present campaigns, for concurrent searches.
publish(Tree) ->
    {ok, Index} = ?BETREE:publish(Tree),
    Index.

%% An event is a map, or {json, Binary}.
matching(Index, Event) ->
    {ok, Ids} = ?BETREE:search(Index, Event, [{timeout, 100}]),
    Ids.

matching_many(Index, Events) ->
    {ok, Lists} = ?BETREE:search_many(Index, Events),
    Lists.

%% Returns a text with the value of each part of a campaign's expression.
explain(Index, Event, Id) ->
    {ok, Why} = ?BETREE:explain(Index, Event, Id),
    'Elixir.String.Chars':to_string(Why).

%% Returns the child specification of a server named ads, which changes while it is searched.
child_spec() ->
    'Elixir.BeTree.Server':child_spec([{name, ads}, {domains, domains()}]).

main() ->
    {error, Message} = new([{1, <<"country = 'CA' and agee > 20">>}]),
    {ok, Tree} = new([{1, <<"country = 'CA' and age > 20">>}, {2, <<"device = 'phone'">>}]),
    Event = #{country => <<"CA">>, age => 19},
    io:format("~ts~n~ts~n", [Message, explain(Tree, Event, 1)]),
    ok = remove(Tree, 1).
