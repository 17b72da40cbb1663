%% The assertions of the suites in this folder. EUnit's header is not used: a project that does not name EUnit as an
%% application may be compiled without it in the code path. Each assertion is a fun, so that it binds no variable outside.
-define(assert(Expr), ?assertEqual(true, Expr)).

-define(assertEqual(Expected, Expr),
    ((fun(Expected__) ->
        case (Expr) of
            Expected__ -> ok;
            Value__ -> ?fail([{expected, Expected__}, {value, Value__}], ??Expr)
        end
    end)(Expected))
).

-define(assertNotEqual(Unexpected, Expr),
    ((fun(Unexpected__) ->
        case (Expr) of
            Unexpected__ -> ?fail([{unexpected, Unexpected__}], ??Expr);
            _ -> ok
        end
    end)(Unexpected))
).

-define(assertMatch(Pattern, Expr),
    ((fun() ->
        case (Expr) of
            Pattern -> ok;
            Value__ -> ?fail([{pattern, ??Pattern}, {value, Value__}], ??Expr)
        end
    end)())
).

%% Errors of the assertion itself are raised outside of the part that catches.
-define(assertError(Pattern, Expr),
    ((fun() ->
        try (Expr) of
            Value__ -> ?fail([{error, ??Pattern}, {value, Value__}], ??Expr)
        catch
            error:Pattern -> ok
        end
    end)())
).

-define(fail(Details, Text), erlang:error({assertion_failed, [{line, ?LINE}, {expression, Text} | Details]})).
