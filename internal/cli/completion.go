package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/cli/complete"
	"github.com/perdure/perdure/internal/cli/man"
)

// completeTime is how long a completion may wait for ids.
const completeTime = 2 * time.Second

type completionCommand struct {
	Shell string `arg:"" help:"Shell: bash, zsh, fish or pwsh." enum:"bash,zsh,fish,pwsh"`
}

// Run prints the completion script of a shell.
func (c *completionCommand) Run(a *app) error {
	_, err := io.WriteString(a.out, complete.Script(c.Shell, cmp.Or(a.Program.Name, program)))
	return err
}

type completeCommand struct {
	New   bool     `help:"Complete a new word after the given ones."`
	Words []string `arg:"" optional:"" passthrough:"" help:"Words of the command line, after --."`
}

// Run prints the completions of a command line. It never fails, because a shell has no place to
// show an error.
func (c *completeCommand) Run(ctx context.Context, a *app) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if c.New {
		words = append(words, "")
	}
	found := complete.Complete(a.kong.Model.Node, words)
	if found.Of != nil && !found.Files {
		a.flags = flagsIn(words, a.flags)
		typed := ""
		if len(words) > 0 {
			typed = strings.TrimPrefix(words[len(words)-1], found.Prefix)
		}
		for _, w := range (completer{a}).idCompletions(ctx, found, strings.TrimPrefix(typed, "=")) {
			found.Words = append(found.Words, complete.Candidate{Text: found.Prefix + w.Text, About: w.About})
		}
	}
	for _, w := range found.Words {
		fmt.Fprintf(a.out, "%s\t%s\n", a.oneLine(w.Text, 200), a.oneLine(w.About, 80))
	}
	if found.Files {
		fmt.Fprintln(a.out, complete.Files)
	}
	return nil
}

// flagsIn returns the flags of a command line that choose a store.
func flagsIn(words []string, f flags) flags {
	for i, word := range words {
		name, value, given := strings.Cut(word, "=")
		if !given && i+1 < len(words) {
			value = words[i+1]
		}
		switch name {
		case "--data":
			f.Data = value
		case "--database":
			f.Database = value
		case "--server":
			f.Server = value
		}
	}
	return f
}

// idCompletions returns the names of existing things with the typed prefix, where a command expects
// one.
func (a completer) idCompletions(ctx context.Context, found complete.Completions, typed string) (words []complete.Candidate) {
	ctx, stop := context.WithTimeout(ctx, completeTime)
	defer stop()
	add := func(text, about string) {
		if strings.HasPrefix(text, typed) {
			words = append(words, complete.Candidate{Text: text, About: about})
		}
	}
	noun := found.Of.Name
	switch {
	case noun == "topic":
		for _, name := range slices.Sorted(maps.Keys(topics())) {
			add(name, "")
		}
		return words
	case noun == "tool", noun == "mcp-tool", noun == "ask", noun == "deny", noun == "name" &&
		strings.HasPrefix(man.Path(found.Node), "tool ") && found.Node.Name != "init":
		_ = a.with(ctx, OpenOptions{}, func(eng Engine) error {
			all, err := eng.Tools().List(ctx)
			for _, t := range all {
				first, _, _ := strings.Cut(t.Description, "\n")
				add(t.Name, first)
			}
			return err
		})
		return words
	case noun == "state":
		for _, state := range states(found.Node.Parent.Name) {
			add(state, "")
		}
		return words
	case noun == "kind":
		for _, kind := range taskKinds() {
			add(string(kind), "")
		}
		return words
	case noun == "id":
		noun = "task" // of resolve, which also accepts calls
	}
	_ = a.read(ctx, func(eng Engine) error { // an error only means that there are no completions
		return a.ids(ctx, eng, noun, add)
	})
	return words
}

// states returns the states of a noun.
func states(noun string) []string {
	switch noun {
	case "task":
		return []string{"queued", "running", "awaiting_input", "succeeded", "failed", "canceled", "unknown"}
	case "approval":
		return []string{"open", "approved", "denied", "expired", "void"}
	case "call":
		return []string{"running", "settled", "unknown"}
	}
	return nil
}

// ids adds the existing things of a noun.
func (a completer) ids(ctx context.Context, eng Engine, noun string, add func(text, about string)) error {
	switch noun {
	case "session":
		add(lastSession, "the most recently started session")
		all, err := eng.Sessions().List(ctx, 0)
		for _, s := range all {
			add(string(s.ID), string(s.Status)+" "+s.Title)
		}
		return err
	case "label":
		return labelCompletions(ctx, eng, add)
	case "task":
		all, err := eng.Tasks().List(ctx, "")
		for _, t := range all {
			add(string(t.ID), string(t.State)+" "+titleOf(t))
		}
		return err
	case "approval":
		all, err := eng.Approvals().List(ctx, engine.ApprovalFilter{State: perdure.ApprovalOpen})
		for _, p := range all {
			add(string(p.ID), p.Tool)
		}
		return err
	case "schedule":
		all, err := eng.Schedules().List(ctx, "")
		for _, s := range all {
			add(string(s.ID), when(s)+" "+s.Title)
		}
		return err
	case "budget":
		all, err := eng.Budgets().List(ctx, engine.BudgetFilter{})
		for _, b := range all {
			add(string(b.ID), string(b.Scope)+" "+b.Subject.ID)
		}
		return err
	case "token":
		all, err := eng.Tokens().List(ctx)
		for _, t := range all {
			add(string(t.ID), t.State+" "+t.Name)
		}
		return err
	case "agent":
		all, err := eng.Agents().List(ctx)
		for _, one := range all {
			if one.Status != string(agent.Deleted) { // the name of a deleted agent may be used again
				add(one.Name, one.Source+" "+one.Description)
			}
		}
		return err
	case "harness":
		all, err := eng.Harnesses().List(ctx)
		for _, one := range all {
			if one.Status != string(agent.Deleted) {
				add(one.Name, one.Status)
			}
		}
		return err
	case "call":
		return a.callIDs(ctx, eng, add)
	}
	return nil
}

// callIDs adds the calls of the most recently started session.
func (a completer) callIDs(ctx context.Context, eng Engine, add func(text, about string)) error {
	s, err := a.session(ctx, eng, lastSession)
	if err != nil {
		return err
	}
	all, err := eng.Calls().List(ctx, s.ID)
	for _, c := range all {
		add(c.Key.String(), string(c.State)+" "+c.Tool)
	}
	return err
}

// labelCompletions adds the labels of all sessions.
func labelCompletions(ctx context.Context, eng Engine, add func(text, about string)) error {
	all, err := eng.Sessions().List(ctx, 0)
	used := map[string]int{}
	for _, s := range all {
		for key, value := range s.Labels {
			used[key+"="+value]++
		}
	}
	for _, word := range slices.Sorted(maps.Keys(used)) {
		add(word, count(used[word], "session"))
	}
	return err
}
