package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// lastSession is what people type instead of an id for the session that was started last.
const lastSession = "last"

// candidate is a thing that an id may mean.
type candidate struct {
	id    string
	also  string // another id of the same thing; empty: none
	named string // what people call it; empty: nothing
	about string // for people who have to choose
}

// kind is the kind of things that an id may mean.
type kind struct {
	noun string
	list string // the command that shows what there is
}

// kind returns the things of a noun that stand by themselves.
func (a *app) kind(noun string) kind {
	verb := "list"
	if noun == "budget" {
		verb = "show"
	}
	return a.kindBy(noun, noun+" "+verb, "")
}

// kindBy returns the things of a noun that another command lists, of the thing that they belong to.
func (a *app) kindBy(noun, command, of string) kind {
	return kind{noun, strings.TrimSpace(program + " " + command + " " + a.place() + of)}
}

// several is the noun of more than one.
func (k kind) several() string {
	switch {
	case strings.HasSuffix(k.noun, "s"):
		return k.noun + "es"
	case strings.HasSuffix(k.noun, "y"):
		return strings.TrimSuffix(k.noun, "y") + "ies"
	}
	return k.noun + "s"
}

// choose returns the one thing whose id begins with what was typed, with or without the noun before it, or that
// is called so (C8).
func (k kind) choose(typed string, all []candidate) (string, error) {
	var found []candidate
	for _, c := range all {
		switch {
		case typed == "":
		case c.id == typed || c.also == typed:
			return c.id, nil
		case beginsWith(c.id, typed), beginsWith(c.also, typed), strings.EqualFold(c.named, typed):
			found = append(found, c)
		}
	}
	switch len(found) {
	case 1:
		return found[0].id, nil
	case 0:
		return "", &fault{err: perdure.NotFound, what: fmt.Sprintf("there is no %s %q", k.noun, typed), todo: k.hint(typed, all)}
	}
	const shown = 10
	lines := []string{"type more of the id of one of these:"}
	for _, c := range found[:min(shown, len(found))] {
		lines = append(lines, strings.TrimSpace("  "+c.id+"  "+clip(strings.Join(strings.Fields(c.about), " "), cellChars)))
	}
	if len(found) > shown {
		lines = append(lines, fmt.Sprintf("and %d more", len(found)-shown))
	}
	return "", &fault{
		err: perdure.Conflict, what: fmt.Sprintf("%q is ambiguous: it may be any of %d %s", typed, len(found), k.several()), todo: strings.Join(lines, "\n  "),
	}
}

func beginsWith(id, typed string) bool {
	_, digits, _ := strings.Cut(id, "_")
	return strings.HasPrefix(id, typed) || strings.HasPrefix(digits, typed)
}

const (
	// uniqueDigits is how many digits of an id are printed at least where one is not printed whole: the first twelve are its
	// millisecond, the thirteenth says so, and the seven after them tell ids of one millisecond apart.
	uniqueDigits = 20
	// sparedDigits is how many more are printed than tell an id from its neighbours, so that it stays the only one when others come.
	sparedDigits = 4
)

// shortIDs are beginnings of ids that people can type instead of them: each means one of them, and will go on to. What is no id of
// Perdure stays whole.
func shortIDs(ids []string) []string {
	sorted := slices.Compact(slices.Sorted(slices.Values(ids)))
	short := make([]string, len(ids))
	for i, id := range ids {
		noun, digits, _ := strings.Cut(id, "_")
		if short[i] = id; len(digits) != 32 || strings.Trim(digits, "0123456789abcdef") != "" {
			continue
		}
		at, _ := slices.BinarySearch(sorted, id)
		same := 0 // characters that a neighbour has, too
		for _, next := range []int{at - 1, at + 1} {
			if next >= 0 && next < len(sorted) {
				same = max(same, alike(id, sorted[next]))
			}
		}
		short[i] = id[:min(max(len(noun)+1+uniqueDigits, same+1+sparedDigits), len(id))]
	}
	return short
}

// alike is how many bytes two texts begin with alike.
func alike(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// hint says what else may have been meant, and where the names stand.
func (k kind) hint(typed string, all []candidate) string {
	list := k.list + " shows them"
	best, distance := "", 3
	for _, c := range all {
		for _, name := range []string{c.id, c.named} {
			if d := editDistance(strings.ToLower(name), strings.ToLower(typed)); name != "" && d < min(distance, len(typed)) {
				best, distance = name, d
			}
		}
	}
	if best == "" {
		return list
	}
	return fmt.Sprintf("did you mean %s? %s", best, list)
}

// editDistance is the number of characters to insert, remove or replace to come from a to b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}

// whole finds a thing by a whole id, without a look at all the others, of which there may be a hundred thousand. ok is false for what
// is no whole id, and for one that nothing has: then the others say what was meant.
func whole[I perdure.ID, T any](ctx context.Context, typed string, get func(context.Context, I) (T, error)) (thing T, ok bool, err error) {
	id, err := perdure.ParseID[I](typed)
	if err != nil {
		return thing, false, nil
	}
	thing, err = get(ctx, id)
	if errors.Is(err, perdure.NotFound) {
		return thing, false, nil
	}
	return thing, err == nil, err
}

// session finds a session by what was typed.
func (a *app) session(ctx context.Context, eng engine.Engine, typed string) (engine.Session, error) {
	if s, ok, err := whole(ctx, typed, eng.Session); ok || err != nil {
		return s, err
	}
	all, err := eng.Sessions(ctx, 0)
	if err != nil {
		return engine.Session{}, fmt.Errorf("list sessions: %w", err)
	}
	if typed == lastSession {
		for _, s := range all {
			if s.Parent == "" { // people speak with whoever has subagents
				return s, nil
			}
		}
		if len(all) == 0 {
			return engine.Session{}, &fault{err: perdure.NotFound, what: "there is no session yet", todo: program + " run " + a.place() + "--model scripted:FILE PROMPT begins one"}
		}
		return all[0], nil
	}
	var candidates []candidate
	for _, s := range all {
		candidates = append(candidates, candidate{id: string(s.ID), named: s.Title, about: s.Title})
	}
	id, err := a.kind("session").choose(typed, candidates)
	if errors.Is(err, perdure.NotFound) {
		if found, also := byAgent(ctx, eng, a.kind("session"), typed, candidates); !errors.Is(also, perdure.NotFound) {
			id, err = found, also
		}
	}
	if err != nil {
		return engine.Session{}, err
	}
	return all[slices.IndexFunc(all, func(s engine.Session) bool { return string(s.ID) == id })], nil
}

// byAgent finds a session by the name of its agent, which only its journal has.
func byAgent(ctx context.Context, eng engine.Journals, k kind, typed string, all []candidate) (string, error) {
	all = slices.Clone(all)
	for i := range all {
		first, err := eng.Events(ctx, perdure.SessionID(all[i].id), 0, 1)
		if err != nil {
			return "", fmt.Errorf("read the agent of %s: %w", all[i].id, err)
		}
		if len(first) == 0 {
			continue
		}
		if created, ok := first[0].Fact.(perdure.SessionCreated); ok {
			all[i].named = created.Agent.Name
		}
	}
	return k.choose(typed, all)
}

// task finds a task by what was typed: of its own id, or of its run's.
func (a *app) task(ctx context.Context, eng engine.Tasks, typed string) (perdure.Task, error) {
	if t, ok, err := whole(ctx, typed, eng.Task); ok || err != nil {
		return t, err
	}
	all, err := eng.Tasks(ctx, "")
	if err != nil {
		return perdure.Task{}, fmt.Errorf("list tasks: %w", err)
	}
	var candidates []candidate
	for _, t := range all {
		candidates = append(candidates, candidate{id: string(t.ID), also: string(t.Run), named: t.DisplayName, about: string(t.State) + " " + titleOf(t)})
	}
	id, err := a.kind("task").choose(typed, candidates)
	if err != nil {
		return perdure.Task{}, err
	}
	return all[slices.IndexFunc(all, func(t perdure.Task) bool { return string(t.ID) == id })], nil
}

// approval finds an approval by what was typed.
func (a *app) approval(ctx context.Context, eng engine.Approvals, typed string) (perdure.Approval, error) {
	if p, ok, err := whole(ctx, typed, eng.Approval); ok || err != nil {
		return p, err
	}
	all, err := eng.Approvals(ctx, engine.ApprovalFilter{})
	if err != nil {
		return perdure.Approval{}, fmt.Errorf("list approvals: %w", err)
	}
	var candidates []candidate
	for _, p := range all {
		candidates = append(candidates, candidate{id: string(p.ID), about: string(p.State) + " " + p.Tool})
	}
	id, err := a.kind("approval").choose(typed, candidates)
	if err != nil {
		return perdure.Approval{}, err
	}
	return eng.Approval(ctx, perdure.ApprovalID(id)) // whole: in a list its arguments may be redacted
}

// call finds a call by SESSION/CALL, each of which may be a beginning.
func (a *app) call(ctx context.Context, eng engine.Engine, typed string) (perdure.Call, error) {
	session, call, _ := strings.Cut(typed, "/")
	s, err := a.session(ctx, eng, session)
	if err != nil {
		return perdure.Call{}, err
	}
	all, err := eng.Calls(ctx, s.ID)
	if err != nil {
		return perdure.Call{}, fmt.Errorf("list calls of %s: %w", s.ID, err)
	}
	var candidates []candidate
	for _, c := range all {
		candidates = append(candidates, candidate{id: string(c.Key.Call), about: string(c.State) + " " + c.Tool})
	}
	id, err := a.kindBy("call", "call list", string(s.ID)).choose(call, candidates)
	if err != nil {
		return perdure.Call{}, err
	}
	return all[slices.IndexFunc(all, func(c perdure.Call) bool { return string(c.Key.Call) == id })], nil
}
