defmodule BeTree.RuleWorkloads do
  @moduledoc false
  # Workloads of stateful rules with known results: Miss Manners and Waltzdb. Each is `{rules, facts}`: the text, and the facts in their
  # order. The last fact sets the rules off.

  @type workload :: {String.t(), [{atom, keyword}]}

  @manners """
  fact guest(name: string, sex: string in ('m', 'f'), hobby: integer 1..9)
  fact last_seat(seat: integer)
  fact counter(value: integer)
  fact context(state: string in ('start', 'assign', 'make', 'check', 'print'))
  fact seating(id: integer, pid: integer, left_seat: integer, left_name: string, right_seat: integer, right_name: string,
               path_done: boolean)
  fact path(id: integer, name: string, seat: integer)
  fact chosen(id: integer, name: string, hobby: integer)

  rule assign_first_seat
    when x: context(state = 'start')
         g: guest
         c: counter
    then assert seating(id: c.value, pid: 0, left_seat: 1, left_name: g.name, right_seat: 1, right_name: g.name,
                        path_done: true),
         assert path(id: c.value, name: g.name, seat: 1),
         modify c(value: c.value + 1),
         modify x(state: 'assign')

  rule find_seating
    when x: context(state = 'assign')
         s: seating(path_done)
         a: guest(name = s.right_name)
         b: guest(sex <> a.sex, hobby = a.hobby)
         c: counter
         none path(id = s.id, name = b.name)
         none chosen(id = s.id, name = b.name, hobby = a.hobby)
    then assert seating(id: c.value, pid: s.id, left_seat: s.right_seat, left_name: s.right_name,
                        right_seat: s.right_seat + 1, right_name: b.name, path_done: false),
         assert path(id: c.value, name: b.name, seat: s.right_seat + 1),
         assert chosen(id: s.id, name: b.name, hobby: a.hobby),
         modify c(value: c.value + 1),
         modify x(state: 'make')

  rule make_path priority 1
    when x: context(state = 'make')
         s: seating(not path_done)
         p: path(id = s.pid)
         none path(id = s.id, name = p.name)
    then assert path(id: s.id, name: p.name, seat: p.seat)

  rule path_done
    when x: context(state = 'make')
         s: seating(not path_done)
    then modify s(path_done: true), modify x(state: 'check')

  rule are_we_done priority 1
    when x: context(state = 'check')
         l: last_seat
         s: seating(right_seat = l.seat)
    then modify x(state: 'print')

  rule continue
    when x: context(state = 'check')
    then modify x(state: 'assign')

  rule print_results priority 1
    when x: context(state = 'print')
         l: last_seat
         s: seating(right_seat = l.seat)
         p: path(id = s.id)
    then retract p, notify seat(name: p.name, seat: p.seat)

  rule all_done
    when x: context(state = 'print')
    then notify done
  """

  @guests %{
    8 => "m32 m23 m123 f32 f123 f312 f32 m31",
    16 => "f312 f32 m13 m21 m23 m21 f213 f32 f132 m23 m321 m31 m231 f31 f312 f321",
    32 => """
    m13 f321 f12 f31 f12 m123 f213 f132 f132 m21 m21 m32 m13 m32 f213 f321 m32 f21 f123 f123 m231 f123 f312 m13 f321 f321
    m312 m31 m321 m213 m21 m132
    """,
    64 => """
    m213 f213 m32 m321 m213 m231 f123 m31 m231 m321 m132 f312 m23 m12 m231 f23 f32 m132 f31 f132 m23 m23 f12 f312 f312 m213
    f231 m12 f231 f213 m123 m12 m231 f213 f23 m21 m21 f132 m312 f123 m213 m31 m132 m312 m12 f123 m12 f32 m32 m23 f213 m123
    f21 f123 f123 f213 f321 f312 f123 f31 f32 f123 f312 f32
    """,
    128 => """
    m23145 f32145 f542 m3214 m253 f14253 f1235 m35 m3524 m23451 m2451 f352 f51 m3514 m52134 m254 m43 f2451 m52 m23 m4321 m124
    f452 f43215 m45 m12 m352 f41325 f35 m21 m314 f215 f54 m452 f31452 m1423 f421 f3124 m52 m23 f53 m54 m345 f2431 m24 m415
    m254 f31 m15432 m243 m1254 f5314 f51423 f13 m24 m23 f214 m53214 f235 f4235 m1243 f32541 f23415 f24153 m53214 f534 f14
    m4215 m341 f35142 m314 m431 f413 f14253 f42 f54321 m15 m51 f13425 m5124 m41 m34125 f134 m34 f41 m34 m5423 m25314 f5241
    m245 f23514 f3125 f312 f25 f34 m14253 f425 m54 f25 m2354 f21534 f21534 m21435 m53412 f42 f451 f31254 f45123 f12 m5412 f32
    f43521 f1352 m32 m2154 m3451 f452 f243 m53 m51324 f4235 m125 m2315 f234 f3524 f2314 f51 f2413
    """
  }

  @doc "Returns Miss Manners with 8, 16, 32, 64 or 128 guests."
  @spec manners(8 | 16 | 32 | 64 | 128) :: workload
  def manners(guests) do
    hobbies =
      for {<<sex::binary-size(1), hobbies::binary>>, number} <- @guests[guests] |> String.split() |> Enum.with_index(1),
          <<hobby <- hobbies>>,
          do: {:guest, name: Integer.to_string(number), sex: sex, hobby: hobby - ?0}

    {@manners, hobbies ++ [last_seat: [seat: guests], counter: [value: 1], context: [state: "start"]]}
  end

  @waltzdb """
  fact stage(value: string in ('duplicate', 'detect', 'initial', 'second', 'labeling', 'visit3', 'visit2', 'marking', 'checking',
                               'remove', 'done'))
  fact line(p1: integer, p2: integer)
  fact edge(p1: integer, p2: integer, joined: boolean)
  fact junction(base: integer, p1: integer, p2: integer, p3: integer, kind: integer in (2, 3),
                name: string in ('L', 'fork', 'tee', 'arrow'), visited: string in ('no', 'now', 'check', 'yes'))
  fact label(name: string, id: integer, n1: string, n2: string, n3: string)
  fact edge_label(p1: integer, p2: integer, name: string in ('B', '+', '-'), id: integer)
  fact illegal(base: integer, id: integer)
  """

  @doc "Returns Waltzdb for a drawing of this many regions."
  @spec waltzdb(pos_integer) :: workload
  def waltzdb(regions) do
    facts = labels() ++ lines(regions) ++ [stage: [value: "duplicate"]]
    {IO.iodata_to_binary([@waltzdb | first() ++ visits() ++ last()]), facts}
  end

  defp rule(name, priority, stage, conditions, actions) do
    "rule #{name} priority #{priority}\n  when t: stage(#{stage})\n#{Enum.map(conditions, &"       #{&1}\n")}  then #{Enum.join(actions, ",\n       ")}\n\n"
  end

  defp at(stage), do: "value = '#{stage}'"
  defp to(stage), do: "modify t(value: '#{stage}')"

  defp first do
    [
      rule(
        "reverse_edges",
        0,
        at("duplicate"),
        ["l: line"],
        [
          "assert edge(p1: l.p1, p2: l.p2, joined: false)",
          "assert edge(p1: l.p2, p2: l.p1, joined: false)",
          "retract l"
        ]
      ),
      rule("done_reversing", 0, at("duplicate"), ["none line"], [to("detect")]),
      make_3_junction(),
      rule(
        "make_L",
        0,
        at("detect"),
        [
          "e1: edge(not joined)",
          "e2: edge(not joined, p1 = e1.p1, p2 <> e1.p2)",
          "none edge(p1 = e1.p1, p2 <> e1.p2, p2 <> e2.p2)"
        ],
        [
          "assert junction(base: e1.p1, p1: e1.p2, p2: e2.p2, p3: 0, kind: 2, name: 'L', visited: 'no')",
          "modify e1(joined: true)",
          "modify e2(joined: true)"
        ]
      ),
      rule("done_detecting", 0, at("detect"), ["none edge(not joined)"], [to("initial")])
      | Enum.flat_map([{"initial", "second", ">"}, {"second", "labeling", "<"}], &ends/1)
    ]
  end

  # The smallest of three sums of angles names the middle one of three lines.
  defp make_3_junction do
    pick = fn first, second, third ->
      "if s1 < s2 and s1 < s3 then #{first} else (if not s1 < s2 and s2 < s3 then #{second} else #{third})"
    end

    rule(
      "make_3_junction",
      0,
      at("detect"),
      [
        "e1: edge(not joined)",
        "e2: edge(not joined, p1 = e1.p1, p2 <> e1.p2)",
        "e3: edge(not joined, p1 = e1.p1, p2 <> e1.p2, p2 <> e2.p2)"
      ],
      [
        "let a = #{between("e1.p1", "e1.p2", "e2.p2")}",
        "let c = #{between("e1.p1", "e1.p2", "e3.p2")}",
        "let d = #{between("e1.p1", "e2.p2", "e3.p2")}",
        "let s1 = a + c",
        "let s2 = a + d",
        "let s3 = c + d",
        "let s = #{pick.("s1", "s2", "s3")}",
        "assert junction(base: e1.p1, p1: #{pick.("e2.p2", "e1.p2", "e1.p2")}, " <>
          "p2: #{pick.("e1.p2", "e2.p2", "e3.p2")}, p3: #{pick.("e3.p2", "e3.p2", "e2.p2")}, kind: 3, visited: 'no', " <>
          "name: if abs(s - #{:math.pi()}) < 0.001 then 'tee' else (if s > #{:math.pi()} then 'fork' else 'arrow'))",
        "modify e1(joined: true)",
        "modify e2(joined: true)",
        "modify e3(joined: true)"
      ]
    )
  end

  # Returns the angle at `base` between two points.
  defp between(base, a, b) do
    direction = fn to ->
      [y, x] = for operator <- ["mod", "div"], do: "(#{to} #{operator} 100 - #{base} #{operator} 100)"
      "atan2(#{y}, #{x})"
    end

    angle = "abs(#{direction.(a)} - #{direction.(b)})"
    "min(#{angle}, #{2 * :math.pi()} - #{angle})"
  end

  defp ends({stage, next, order}) do
    outermost = "none junction(base #{order} j.base)"
    edges = for side <- 1..3, do: "e#{side}: edge(p1 = j.base, p2 = j.p#{side})"

    labels = fn names, id ->
      for {name, side} <- Enum.with_index(names, 1),
          do: "assert edge_label(p1: j.base, p2: j.p#{side}, name: '#{name}', id: #{id})"
    end

    [
      rule(
        "#{stage}_L",
        0,
        at(stage),
        ["j: junction(kind = 2)"] ++ Enum.take(edges, 2) ++ [outermost],
        ["modify j(visited: 'yes')"] ++ labels.(["B", "B"], 1) ++ [to(next)]
      ),
      rule(
        "#{stage}_arrow",
        0,
        at(stage),
        ["j: junction(kind = 3, name = 'arrow')"] ++ edges ++ [outermost],
        ["modify j(visited: 'yes')"] ++ labels.(["B", "+", "B"], 14) ++ [to(next)]
      )
    ]
  end

  defp visits do
    for {sides, priority} <- [{3, 2}, {2, 1}],
        stage = "visit#{sides}",
        rule <- [start(stage, sides, priority) | Enum.map(0..(2 ** sides - 1), &visit(stage, sides, &1))],
        do: rule
  end

  defp start(stage, sides, priority) do
    conditions = ["j: junction(kind = #{sides}, visited = 'no')"]
    rule("start_#{stage}", priority, at("labeling"), conditions, [to(stage), "modify j(visited: 'now')"])
  end

  # `unknown` has a bit for each side at which the neighbour has no label.
  defp visit(stage, sides, unknown) do
    neighbours =
      for side <- 1..sides do
        if Bitwise.band(Bitwise.bsr(unknown, side - 1), 1) == 0,
          do: "x#{side}: edge_label(p1 = j.p#{side}, p2 = j.base, name = l.n#{side})",
          else: "none edge_label(p1 = j.p#{side}, p2 = j.base)"
      end

    rule(
      "#{stage}_#{unknown}",
      10,
      at(stage),
      ["j: junction(kind = #{sides}, visited = 'now')", "l: label(name = j.name)"] ++
        neighbours ++ ["none edge_label(p1 = j.base, id = l.id)"],
      for(side <- 1..sides, do: "assert edge_label(p1: j.base, p2: j.p#{side}, name: l.n#{side}, id: l.id)")
    )
  end

  defp last do
    [
      rule("end_visit", 0, "value in ('visit3', 'visit2')", ["j: junction(visited = 'now')"], [to("marking")]),
      rule(
        "marking",
        3,
        at("marking"),
        ["j: junction(visited = 'now')", "e: edge(p2 = j.base)", "q: junction(base = e.p1, visited = 'yes')"],
        ["modify q(visited: 'check')"]
      ),
      rule("stop_marking", 2, at("marking"), ["j: junction(visited = 'now')"], ["modify j(visited: 'yes')"]),
      rule("start_checking", 1, at("marking"), [], [to("checking")]),
      rule(
        "checking",
        3,
        at("checking"),
        [
          "j: junction(visited = 'check')",
          "x: edge_label(p1 = j.base)",
          "q: junction(base = x.p2, visited = 'yes')",
          "none edge_label(p1 = x.p2, p2 = j.base, name = x.name)"
        ],
        [to("remove"), "assert illegal(base: x.p1, id: x.id)"]
      )
    ] ++
      for(sides <- [3, 2], do: remove(sides)) ++
      [
        rule("checking_done_one", 2, at("checking"), ["j: junction(visited = 'check')"], ["modify j(visited: 'yes')"]),
        rule("stop_checking", 1, at("checking"), [], [to("labeling")]),
        rule("done_labeling", 0, at("labeling"), [], [to("done")]),
        rule("done", 0, at("done"), [], ["notify done"])
      ]
  end

  defp remove(sides) do
    rule(
      "remove_label_#{sides}j",
      0,
      at("remove"),
      ["i: illegal", "j: junction(kind = #{sides}, base = i.base)"] ++
        for(side <- 1..sides, do: "x#{side}: edge_label(p1 = j.base, p2 = j.p#{side}, id = i.id)"),
      [to("checking"), "retract i"] ++ for(side <- 1..sides, do: "retract x#{side}")
    )
  end

  @labels ~w(L BB L +B L B+ L -B L B- fork +++ fork --- fork B-B fork -BB fork BB- tee B+B tee B-B tee BBB) ++
            ~w(arrow B+B arrow -+- arrow +-+)

  defp labels do
    for {[name, ends], id} <- @labels |> Enum.chunk_every(2) |> Enum.with_index(1) do
      [n1, n2, n3] = for side <- 0..2, do: String.slice(ends, side, 1)
      {:label, name: name, id: id, n1: n1, n2: n2, n3: n3}
    end
  end

  @links [{5, 3, 6, 3}, {3, 5, 3, 6}, {8, 5, 8, 6}, {5, 8, 6, 8}]
  @block [
    {0, 0, 2, 0},
    {2, 0, 3, 0},
    {3, 0, 4, 0},
    {0, 0, 0, 2},
    {0, 2, 0, 3},
    {0, 3, 0, 4},
    {0, 4, 4, 4},
    {4, 4, 4, 0},
    {4, 0, 5, 1},
    {5, 1, 5, 2},
    {5, 2, 5, 3},
    {5, 3, 5, 5},
    {5, 5, 4, 4},
    {5, 5, 3, 5},
    {3, 5, 2, 5},
    {2, 5, 1, 5},
    {1, 5, 0, 4}
  ]
  @back [{-1, 3, 0, 3}, {-3, 5, -3, 6}, {2, 5, 2, 6}, {-1, 8, 0, 8}]

  defp lines(regions) do
    for cell <- 0..regions,
        {links, x, y} <-
          [{@links, 0, 0}, {@block, 0, 0}, {@block, 6, 0}, {@block, 0, 6}, {@block, 6, 6}] ++
            if(cell > 0, do: [{@back, 0, 0}], else: []),
        {x1, y1, x2, y2} <- links do
      [p1, p2] = for {px, py} <- [{x1, y1}, {x2, y2}], do: 10_000 * (px + x + 12 * cell) + py + y
      {:line, p1: p1, p2: p2}
    end
  end
end
