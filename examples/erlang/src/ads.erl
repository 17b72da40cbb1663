%% Finds the campaigns that may bid for a request. docs/erlang.md explains it.
-module(ads).

-export([new/1, matching/2, matching_timed/2, why_not/2, main/0]).

-include_lib("be_tree/include/erl_betree.hrl").

-export_type([campaign/0]).

%% An id, the constants of its frequency caps, and its expression.
-type campaign() :: {non_neg_integer(), [{atom(), integer()}], iodata()}.

%% A request for an ad is two records, so the domains are two lists: the fields in the same order, without the tag.
-record(request, {now, country, device, latitude, longitude}).
-record(user, {age, interests, segments_with_timestamp, frequency_caps}).

domains() ->
    [[{now, int64, disallow_undefined},
      {country, bin, disallow_undefined},
      {device, bin, allow_undefined},
      {latitude, float, allow_undefined},
      {longitude, float, allow_undefined}],
     [{age, int, allow_undefined},
      {interests, bin_list, allow_undefined},
      {segments_with_timestamp, segments, allow_undefined},
      {frequency_caps, frequency_caps, allow_undefined}]].

%% Returns a tree of these campaigns, which also keeps reasons. Any process may search it.
-spec new([campaign()]) -> {ok, reference()} | {error, {non_neg_integer(), term()}}.
new(Campaigns) ->
    {ok, Tree} = erl_betree:betree_make_err(domains()),
    insert(Tree, Campaigns).

insert(Tree, []) ->
    ok = erl_betree:betree_make_sub_ids(Tree),
    {ok, Tree};
insert(Tree, [{Id, Constants, Expression} | Campaigns]) ->
    case erl_betree:betree_make_sub_err(Tree, Id, Constants, Expression) of
        {ok, Sub} ->
            ok = erl_betree:betree_insert_sub_err(Tree, Sub),
            insert(Tree, Campaigns);
        Refusal ->
            {error, {Id, Refusal}}
    end.

%% Returns the ids of the campaigns for a request.
matching(Tree, Request) ->
    {ok, Ids} = erl_betree:betree_search(Tree, Request),
    Ids.

%% Returns the ids and the microseconds of the search. The event is decoded once, for any number of searches.
matching_timed(Tree, Request) ->
    {{ok, Event}, _Reading} = erl_betree:betree_make_event(Tree, Request, ?CLOCK_MONOTONIC),
    {{ok, Ids}, Microseconds} = erl_betree:betree_search(Tree, Event, ?CLOCK_MONOTONIC),
    {Ids, Microseconds}.

%% Returns for each attribute the ids of the campaigns excluded by it.
why_not(Tree, Request) ->
    {_OkOrError, _Ids, NonMatches} = erl_betree:betree_search_err(Tree, Request),
    {ok, Reasons} = erl_betree:betree_parse_reasons(NonMatches),
    Reasons.

main() ->
    {ok, Tree} = new(campaigns()),
    Request = request(),
    io:format("match: ~w~n", [matching(Tree, Request)]),
    [io:format("not for ~s: ~w~n", [Attribute, Ids]) || {Attribute, Ids} <- why_not(Tree, Request)],
    ok.

campaigns() ->
    [{1, [], <<"country in ('CA', 'US') and age >= 21">>},
     {2, [], <<"device = 'phone' and interests one of ('ski', 'hike')">>},
     {3, [], <<"geo_within_radius(45.5, -73.6, 25.0)">>},
     {4, [], <<"country = 'CA' and not (interests one of ('golf'))">>},
     {5, [], <<"segment_within(7, 3600)">>},
     %% At most twice a day for flight 50.
     {6, [{flight_id, 50}], <<"country = 'CA' and within_frequency_cap('flight', 'ads', 2, 86400)">>}].

request() ->
    Now = 1700000000,
    [#request{now = Now, country = <<"CA">>, device = <<"phone">>, latitude = 45.52, longitude = -73.57},
     #user{age = 19,
           interests = [<<"hike">>, <<"golf">>],
           segments_with_timestamp = [{7, (Now - 600) * 1000000}],
           frequency_caps = [{{<<"flight">>, 50, <<"ads">>}, 2, (Now - 3600) * 1000000}]}].
