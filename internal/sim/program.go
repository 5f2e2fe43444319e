package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
)

// Op is the operation of a step.
type Op string

// The operations. All but the last two are requests of a client.
const (
	Send      Op = "send"      // a message that lists calls
	Repeat    Op = "repeat"    // a message that was sent before, under the same id (DL12)
	Interrupt Op = "interrupt" // the running turn
	Cancel    Op = "cancel"    // a task
	CancelAll Op = "cancel_all"
	Decide    Op = "decide" // an open approval
	Reply     Op = "reply"  // a question of a task
	Answer    Op = "answer" // a call that waits for the client
	Detach    Op = "detach" // a foreground call
	Deliver   Op = "deliver"
	Drain     Op = "drain"
	Mail      Op = "mail"
	Resolve   Op = "resolve" // an unknown outcome
	Stop      Op = "stop"    // the engine ends as on SIGTERM, and another one starts
	Kill      Op = "kill"    // the engine ends as on SIGKILL, and another one starts
)

// Step is one step of a program.
type Step struct {
	N       int // its number in the original program, which does not change when others are dropped
	Op      Op  //
	Session int // the index of the session
	// the index of a subagent below the session, from 1; 0, or without subagents: the session
	// itself
	Below int
	After time.Duration // virtual time since the previous step
	Pick  int           // selects one of several possible objects
	Text  string        // of a message, see mind
	Mode  perdure.Mode
}

// String formats the step in one line.
func (s Step) String() string {
	text := fmt.Sprintf("%2d  +%-6s %s", s.N, s.After, s.Op)
	switch s.Op {
	case Stop, Kill:
	case Send:
		text += fmt.Sprintf(" s%d %q %s", s.Session, s.Text, s.Mode)
	default:
		text += fmt.Sprintf(" s%d pick %d", s.Session, s.Pick)
	}
	if s.Below > 0 {
		text += fmt.Sprintf(" below %d", s.Below)
	}
	return strings.TrimRight(text, " ")
}

// Fault is the fault at one commit.
type Fault struct {
	Commit int // the nth commit of the program with a significant write, from 1
	Act    Act
}

// Program is a random program, as data. The same program runs the same way every time.
type Program struct {
	Seed     uint64
	Sessions int
	Hosts    int // under the grants of one scheduler; 0: one engine that schedules its own work
	Steps    []Step
	Faults   []Fault
	Settings Settings
	Sabotage Sabotage // how the store lies; empty: it does not
}

// Settings are the settings in which the engines of programs differ.
type Settings struct {
	Serial   bool          // the calls of a step run one after another
	Overflow string        // of background runs
	Expiry   time.Duration // of approvals; 0: never
	Drain    time.Duration // -1: none
	Heal     bool          // a new engine finishes the work, not the running one
	Agents   int           // live subagents below a session; 0: the default
}

// String formats the whole program, for the report of a failure.
func (p Program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %d sessions, %+v", p.Seed, p.Sessions, p.Settings)
	if p.Hosts > 0 {
		fmt.Fprintf(&b, ", %d hosts", p.Hosts)
	}
	if p.Sabotage != "" {
		fmt.Fprintf(&b, ", sabotage %s", p.Sabotage)
	}
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "\n  %s", s)
	}
	for _, f := range p.Faults {
		fmt.Fprintf(&b, "\n  commit %d: %s", f.Commit, f.Act)
	}
	return b.String()
}

// foreground and background are the tools that a message may request.
var (
	foreground = []string{
		"pure", "pure", "note", "note", "charge", "charge", "serial", "soft", "soft_charge", "late", "needs", "needs",
		"client", "routed", "routed_charge", "ask", "permit", "check", "list", "nonsense", "agent", "agent",
		"routed_agent", "word", "tell",
	}
	background = []string{"bg_note", "bg_charge", "bg_slow", "bg_chatty", "bg_ask", "bg_needs", "bg_agent"}
)

// Make creates the program of a seed.
func Make(seed uint64) Program {
	dice := rand.New(rand.NewPCG(seed, 0x73696d))
	sessions, steps := size(seed, dice)
	p := Program{Seed: seed, Sessions: sessions, Settings: Settings{
		Serial: dice.IntN(4) == 0, Overflow: []string{"queue", "queue", "reject", "evict_oldest"}[dice.IntN(4)],
		Expiry: []time.Duration{0, 0, 2 * time.Second}[dice.IntN(3)],
		Drain:  []time.Duration{-1, 150 * time.Millisecond}[dice.IntN(2)], Heal: dice.IntN(2) == 0,
		Agents: []int{0, 0, 2}[dice.IntN(3)],
	}}
	m := maker{dice: dice}
	for n := range steps {
		p.Steps = append(p.Steps, m.step(n+1, p.Sessions))
	}
	if dice.IntN(5) > 0 {
		for commit := 1; ; {
			commit += 1 + dice.IntN(70)
			if commit > 400 {
				break
			}
			p.Faults = append(p.Faults, Fault{Commit: commit, Act: acts[dice.IntN(len(acts))]})
		}
	}
	return p
}

// maxHosts is the largest number of hosts in a program.
const maxHosts = 5

// MakeHosts creates the program of a seed for several hosts: that of Make with other faults.
func MakeHosts(seed uint64) Program {
	p := Make(seed)
	dice := rand.New(rand.NewPCG(seed, 0x686f737473))
	p.Hosts, p.Faults = 1+int(seed%maxHosts), nil
	some := append(slices.Clone(acts), append(freezes, freezes...)...)
	for commit := 1 + dice.IntN(40); commit < 800; commit += 1 + dice.IntN(80) {
		p.Faults = append(p.Faults, Fault{Commit: commit, Act: some[dice.IntN(len(some))]})
	}
	return p
}

// MakeMany creates a program with many hosts, and sessions for each of them, which all get one
// message.
func MakeMany(seed uint64, hosts, sessions int) Program {
	dice := rand.New(rand.NewPCG(seed, 0x6d616e79))
	p := Program{Seed: seed, Hosts: hosts, Sessions: hosts * sessions, Settings: Settings{Overflow: "queue", Drain: -1}}
	m := maker{dice: dice}
	for n := range p.Sessions {
		p.Steps = append(p.Steps, Step{N: n + 1, Session: n, Op: Send, After: m.pause(n + 1), Text: m.message(deepest)})
	}
	some := append(slices.Clone(acts), freezes...)
	for commit := 1; commit < 30*p.Sessions; commit += 1 + dice.IntN(200) {
		p.Faults = append(p.Faults, Fault{Commit: commit, Act: some[dice.IntN(len(some))]})
	}
	return p
}

// size returns the number of sessions and steps. One program in eight is large, with much
// concurrency; the others are small, so that many can run.
func size(seed uint64, dice *rand.Rand) (sessions, steps int) {
	if seed%8 == 0 {
		return 2 + dice.IntN(3), 14 + dice.IntN(13)
	}
	return 1 + dice.IntN(2), 3 + dice.IntN(5)
}

// maker creates the steps of one program.
type maker struct {
	dice     *rand.Rand
	orders   int
	stubborn bool // the program has a tool that does not stop; two of them would race for their fences
}

// weights are the relative frequencies of operations.
var weights = []struct {
	op     Op
	weight int
}{
	{Send, 11}, {Repeat, 1}, {Interrupt, 2}, {Cancel, 4}, {CancelAll, 1}, {Decide, 5}, {Reply, 3}, {Answer, 2},
	{Detach, 4}, {Deliver, 2}, {Drain, 1}, {Mail, 1}, {Resolve, 3}, {Stop, 1}, {Kill, 2},
}

func (m *maker) step(n, sessions int) Step {
	s := Step{N: n, Session: m.dice.IntN(sessions), Pick: m.dice.IntN(12), After: m.pause(n)}
	if n <= sessions {
		s.Session, s.Op = n-1, Send // each has something to do from the start
	} else if m.dice.IntN(5) == 0 {
		s.Below = 1 + m.dice.IntN(3)
	}
	for s.Op == "" {
		w := weights[m.dice.IntN(len(weights))]
		if m.dice.IntN(11) < w.weight {
			s.Op = w.op
		}
	}
	if s.Op == Send {
		modes := []perdure.Mode{"", "", "", perdure.ModeQueue, perdure.ModeInterrupt, perdure.ModeReject}
		s.Mode = modes[m.dice.IntN(6)]
		s.Text = m.message(0)
	}
	return s
}

// pause is mostly short, so that steps interrupt running work. No two times of a program are equal.
func (m *maker) pause(n int) time.Duration {
	most := []time.Duration{20 * time.Millisecond, 20 * time.Millisecond, 120 * time.Millisecond,
		time.Second}[m.dice.IntN(4)]
	return time.Duration(m.dice.Int64N(int64(most/time.Microsecond)))*time.Microsecond +
		time.Duration(n)*time.Nanosecond
}

// deepest is the nesting depth of orders for subagents. It is one more than the limit (SA5), so
// that some are refused.
const deepest = 3

// message lists calls in one round or more. depth is the depth of the session that receives it.
func (m *maker) message(depth int) string {
	var rounds []string
	for range 1 + m.dice.IntN(2)*m.dice.IntN(2) {
		var orders []string
		for range 1 + m.dice.IntN(3) {
			orders = append(orders, m.order(depth))
		}
		rounds = append(rounds, strings.Join(orders, " "))
	}
	if depth < deepest && m.dice.IntN(6) == 0 { // a background subagent that receives a message while it works
		m.orders += 2
		agent, word := m.orders-1, m.orders
		rounds = append(rounds,
			fmt.Sprintf("bg_agent#%d%s", agent, packed(m.order(deepest)+" | "+m.order(deepest))),
			fmt.Sprintf("word#%d%s", word, packed(m.order(deepest))))
	}
	return strings.Join(rounds, " | ")
}

func (m *maker) order(depth int) string {
	m.orders++
	number := m.orders
	name := foreground[m.dice.IntN(len(foreground))]
	if m.dice.IntN(3) == 0 {
		name = background[m.dice.IntN(len(background))]
	}
	if depth > 0 && m.dice.IntN(6) == 0 {
		name = "tell" // there is a parent
	}
	if !m.stubborn && m.dice.IntN(60) == 0 {
		name, m.stubborn = []string{"stubborn", "bg_stubborn"}[m.dice.IntN(2)], true
	}
	how := []string{"", "", "", "", "", "", "!fail", "!panic"}[m.dice.IntN(8)]
	agent := strings.HasSuffix(name, "agent")
	switch {
	case agent && depth == deepest:
		return fmt.Sprintf("note#%d", number)
	case agent:
		how = []string{"", "", "", "", "!schema"}[m.dice.IntN(5)]
		return fmt.Sprintf("%s#%d%s%s", name, number, packed(m.message(depth+1)), how)
	case name == "word":
		return fmt.Sprintf("%s#%d%s", name, number, packed(m.order(deepest)))
	}
	return fmt.Sprintf("%s#%d%s", name, number, how)
}
