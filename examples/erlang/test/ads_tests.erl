-module(ads_tests).

-include_lib("eunit/include/eunit.hrl").

-define(REQUEST(Country, Age), [{request, 0, Country, undefined, undefined, undefined}, {user, Age}]).

matching_test() ->
    {ok, Tree} = ads:new([{1, [], "country = 'CA' and age >= 21"}, {2, [], ["country", " <> 'CA'"]}]),
    ?assertEqual([1], ads:matching(Tree, ?REQUEST(<<"CA">>, 30))),
    ?assertEqual([2], ads:matching(Tree, ?REQUEST(<<"FR">>, 30))),
    ?assertMatch({[1], _}, ads:matching_timed(Tree, ?REQUEST(<<"CA">>, 30))).

why_not_test() ->
    {ok, Tree} = ads:new([{1, [], "country = 'CA' and age >= 21"}, {2, [], "country = 'US'"}]),
    ?assertEqual([{country, [2]}, {age, [1]}], ads:why_not(Tree, ?REQUEST(<<"CA">>, 20))),
    ?assertEqual([{invalid_event, [1, 2]}], ads:why_not(Tree, ?REQUEST(undefined, 20))).

refused_test() ->
    ?assertEqual({error, {2, {error, failed}}}, ads:new([{1, [], "age > 1"}, {2, [], "age >"}])).

main_test() ->
    ?assertEqual(ok, ads:main()).
