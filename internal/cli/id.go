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

// lastSession names the most recently started session in place of an id.
const lastSession = "last"

// candidate is a thing that an id may mean.
type candidate struct {
	id          string
	alternateID string // another id of the same thing; empty: none
	name        string // its name or title; empty: none
	description string // a description for the list of candidates
}

// kind is a kind of things that an id may mean.
type kind struct {
	noun string
	list string // command that lists the things
}

// kind returns the kind of a noun whose things belong to nothing else.
func (a *app) kind(noun string) kind {
	verb := "list"
	if noun == "budget" {
		verb = "show"
	}
	return a.kindBy(noun, noun+" "+verb, "")
}

// kindBy returns the kind of a noun that another command lists, for the thing that of names.
func (a *app) kindBy(noun, command, of string) kind {
	return kind{noun, strings.TrimSpace(program + " " + command + " " + a.storeFlags() + of)}
}

// plural returns the plural of the noun.
func (k kind) plural() string {
	switch {
	case strings.HasSuffix(k.noun, "s"):
		return k.noun + "es"
	case strings.HasSuffix(k.noun, "y"):
		return strings.TrimSuffix(k.noun, "y") + "ies"
	}
	return k.noun + "s"
}

// choose returns the one thing whose id begins with typed, with or without the noun before it, or
// whose name is typed.
func (k kind) choose(typed string, all []candidate) (string, error) {
	var found []candidate
	for _, c := range all {
		switch {
		case typed == "":
		case c.id == typed || c.alternateID == typed:
			return c.id, nil
		case hasPrefix(c.id, typed), hasPrefix(c.alternateID, typed), strings.EqualFold(c.name, typed):
			found = append(found, c)
		}
	}
	switch len(found) {
	case 1:
		return found[0].id, nil
	case 0:
		return "", &userError{err: perdure.NotFound, message: fmt.Sprintf("there is no %s %q", k.noun, typed),
			hint: k.hint(typed, all)}
	}
	const shown = 10
	lines := []string{"type more characters of one of these ids:"}
	for _, c := range found[:min(shown, len(found))] {
		lines = append(lines, strings.TrimSpace("  "+c.id+"  "+clip(strings.Join(strings.Fields(c.description), " "),
			cellChars)))
	}
	if len(found) > shown {
		lines = append(lines, fmt.Sprintf("and %d more", len(found)-shown))
	}
	return "", &userError{
		err: perdure.Conflict, message: fmt.Sprintf("%q is ambiguous: it matches %d %s", typed, len(found), k.plural()),
		hint: strings.Join(lines, "\n  "),
	}
}

// pick is choose for things of any kind, of which describe returns the candidates.
func pick[T any](k kind, typed string, all []T, describe func(T) candidate) (one T, err error) {
	candidates := make([]candidate, len(all))
	for i, thing := range all {
		candidates[i] = describe(thing)
	}
	id, err := k.choose(typed, candidates)
	if err != nil {
		return one, err
	}
	return all[slices.IndexFunc(candidates, func(c candidate) bool { return c.id == id })], nil
}

func hasPrefix(id, typed string) bool {
	_, digits, _ := strings.Cut(id, "_")
	return strings.HasPrefix(id, typed) || strings.HasPrefix(digits, typed)
}

const (
	// uniqueDigits is the minimum number of digits of an abbreviated id: the first twelve are its
	// millisecond, the thirteenth is constant, and the next seven distinguish ids of the same
	// millisecond.
	uniqueDigits = 20
	// sparedDigits is how many digits are printed beyond those that distinguish an id from its
	// neighbours, so that the abbreviation stays unique when new ids are added.
	sparedDigits = 4
)

// shortIDs abbreviates ids for people to type: each abbreviation matches one id only, and very
// likely will in the future. A text that is no id of Perdure stays as it is.
func shortIDs(ids []string) []string {
	sorted := slices.Compact(slices.Sorted(slices.Values(ids)))
	short := make([]string, len(ids))
	for i, id := range ids {
		noun, digits, _ := strings.Cut(id, "_")
		if short[i] = id; len(digits) != 32 || strings.Trim(digits, "0123456789abcdef") != "" {
			continue
		}
		at, _ := slices.BinarySearch(sorted, id)
		same := 0 // length of the prefix that a neighbour shares
		for _, next := range []int{at - 1, at + 1} {
			if next >= 0 && next < len(sorted) {
				same = max(same, sharedPrefix(id, sorted[next]))
			}
		}
		short[i] = id[:min(max(len(noun)+1+uniqueDigits, same+1+sparedDigits), len(id))]
	}
	return short
}

// sharedPrefix returns the length of the common prefix in bytes.
func sharedPrefix(a, b string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// hint suggests a similar name, and the command that lists the things.
func (k kind) hint(typed string, all []candidate) string {
	list := k.list + " shows them"
	best, distance := "", 3
	for _, c := range all {
		for _, name := range []string{c.id, c.name} {
			if d := editDistance(strings.ToLower(name), strings.ToLower(typed)); name != "" &&
				d < min(distance, len(typed)) {
				best, distance = name, d
			}
		}
	}
	if best == "" {
		return list
	}
	return fmt.Sprintf("did you mean %s? %s", best, list)
}

// editDistance returns the number of characters to insert, remove or replace to get from a to b.
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

// byFullID finds a thing by its full id without listing all others, of which there may be a hundred
// thousand. ok is false when typed is not a full id, and when nothing has it: the caller then
// searches the list.
func byFullID[I perdure.ID, T any](ctx context.Context, typed string,
	get func(context.Context, I) (T, error)) (thing T, ok bool, err error) {
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

// session finds a session by what the user typed.
func (a *app) session(ctx context.Context, eng Engine, typed string) (engine.Session, error) {
	if s, ok, err := byFullID(ctx, typed, eng.Sessions().Get); ok || err != nil {
		return s, err
	}
	all, err := eng.Sessions().List(ctx, 0)
	if err != nil {
		return engine.Session{}, fmt.Errorf("list sessions: %w", err)
	}
	if typed == lastSession {
		for _, s := range all {
			if s.Parent == "" { // not a subagent
				return s, nil
			}
		}
		if len(all) == 0 {
			return engine.Session{},
				&userError{err: perdure.NotFound, message: "there are no sessions",
					hint: "start one with: " + program + " run " + a.storeFlags() + "--model MODEL PROMPT"}
		}
		return all[0], nil
	}
	var candidates []candidate
	for _, s := range all {
		candidates = append(candidates, candidate{id: string(s.ID), name: s.Title, description: s.Title})
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

// byAgent finds a session by the name of its agent, which only the journal contains.
func byAgent(ctx context.Context, eng engine.Journal, k kind, typed string, all []candidate) (string, error) {
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
			all[i].name = created.Agent.Name
		}
	}
	return k.choose(typed, all)
}

// task finds a task by what the user typed: its id, or the id of its background run.
func (a *app) task(ctx context.Context, eng Engine, typed string) (perdure.Task, error) {
	if t, ok, err := byFullID(ctx, typed, eng.Tasks().Get); ok || err != nil {
		return t, err
	}
	all, err := eng.Tasks().List(ctx, "")
	if err != nil {
		return perdure.Task{}, fmt.Errorf("list tasks: %w", err)
	}
	return pick(a.kind("task"), typed, all, func(t perdure.Task) candidate {
		return candidate{id: string(t.ID), alternateID: string(t.Run), name: t.DisplayName,
			description: string(t.State) + " " + titleOf(t)}
	})
}

// approval finds an approval by what the user typed.
func (a *app) approval(ctx context.Context, eng Engine, typed string) (perdure.Approval, error) {
	if p, ok, err := byFullID(ctx, typed, eng.Approvals().Get); ok || err != nil {
		return p, err
	}
	all, err := eng.Approvals().List(ctx, engine.ApprovalFilter{})
	if err != nil {
		return perdure.Approval{}, fmt.Errorf("list approvals: %w", err)
	}
	p, err := pick(a.kind("approval"), typed, all, func(p perdure.Approval) candidate {
		return candidate{id: string(p.ID), description: string(p.State) + " " + p.Tool}
	})
	if err != nil {
		return p, err
	}
	return eng.Approvals().Get(ctx, p.ID) // in a list its arguments may be masked
}

// call finds a call by SESSION/CALL; each part may be abbreviated.
func (a *app) call(ctx context.Context, eng Engine, typed string) (perdure.Call, error) {
	session, call, _ := strings.Cut(typed, "/")
	s, err := a.session(ctx, eng, session)
	if err != nil {
		return perdure.Call{}, err
	}
	all, err := eng.Calls().List(ctx, s.ID)
	if err != nil {
		return perdure.Call{}, fmt.Errorf("list calls of %s: %w", s.ID, err)
	}
	return pick(a.kindBy("call", "call list", string(s.ID)), call, all, func(c perdure.Call) candidate {
		return candidate{id: string(c.Key.Call), description: string(c.State) + " " + c.Tool}
	})
}
