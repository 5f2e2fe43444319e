package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type sessionNew struct {
	Agent        string        `help:"The agent that it is made of, which says what is not said here: its name or its id." placeholder:"AGENT"`
	Model        string        `help:"Which model answers: openai:NAME, anthropic:NAME, or scripted:FILE." placeholder:"MODEL"`
	BaseURL      string        `name:"base-url" help:"The server that is asked instead of the provider's own." placeholder:"URL"`
	Workspace    string        `help:"The folder that holds the session's files. Without it the data directory keeps them." placeholder:"DIR" type:"path"`
	Capability   []string      `help:"Tools that none has by default: session_storage, session_sql, session_resources, session_schedule, subagents. Can be given several times." placeholder:"NAME"`
	SoftBudget   time.Duration `name:"soft-budget" help:"How long a call may keep its turn waiting before it goes on in the background; a negative one means for ever. Default: 10m." placeholder:"DURATION"`
	Instructions string        `help:"The system prompt." placeholder:"TEXT"`
	Title        string        `help:"What it is called." placeholder:"TEXT"`
	Label        []string      `help:"What it is found by. Can be given several times." placeholder:"KEY=VALUE" sep:"none"`
	DryRun       bool          `help:"Only say what would be done."`
	output
}

// Run starts a session in which nothing was said yet.
func (c *sessionNew) Run(ctx context.Context, a *app) error {
	if err := c.suits(engine.Session{}); err != nil {
		return err
	}
	talk := &runCommand{Agent: c.Agent, Model: c.Model, BaseURL: c.BaseURL, Workspace: c.Workspace, Capability: c.Capability, SoftBudget: c.SoftBudget, Instructions: c.Instructions}
	if err := errors.Join(talk.noServer(), talk.ofAgent()); err != nil {
		return err
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		start, err := talk.starter(ctx, a, eng)
		if err != nil {
			return err
		}
		labels, err := labelsOf(c.Label)
		if err != nil {
			return err
		}
		if c.DryRun {
			a.say("would start a session with %s", a.line(cmp.Or(c.Model, c.Agent), cellChars))
			return nil
		}
		s, err := start(ctx, clip(inLine(c.Title), cellChars), labels)
		if err != nil {
			return fmt.Errorf("start a session: %w", err)
		}
		a.say("%s is there; speak in it with: %s run %s--session %s PROMPT", s.ID, program, a.place(), s.ID)
		return c.show(ctx, a, shown{string(s.ID), s, func() { a.brief(s) }})
	})
}

type sessionInterrupt struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Why     string `help:"Why; it stands in the journal." placeholder:"TEXT"`
	DryRun  bool   `help:"Only say what would be done."`
	output
}

// Run ends the turn that runs. What works in the background stays.
func (c *sessionInterrupt) Run(ctx context.Context, a *app) error {
	if err := c.suits(engine.Session{}); err != nil {
		return err
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		s, err := a.session(ctx, eng, c.Session)
		runs := s.Status == perdure.SessionActive
		if err == nil && s.Status == perdure.SessionPaused { // it may hold a turn
			var fold *perdure.Session
			if fold, err = foldOf(ctx, eng, s.ID); err == nil {
				runs = fold.Turn != nil
			}
		}
		switch {
		case err != nil:
			return err
		case !runs:
			a.say("nothing was done: no turn of %s runs, which is %s", s.ID, s.Status)
			return c.show(ctx, a, shown{string(s.ID), s, func() { a.brief(s) }})
		case c.DryRun:
			a.say("would interrupt the turn of %s: %s", s.ID, a.line(s.Title, cellChars))
			return nil
		}
		if err := eng.Interrupt(ctx, s.ID, operator, c.Why); err != nil {
			return err
		}
		switch now, err := eng.Session(ctx, s.ID); {
		case err == nil:
			s = now
		case !errors.Is(err, perdure.Unavailable): // else who had it is gone with the turn: what it was told stands
			return fmt.Errorf("read the session: %w", err)
		}
		a.say("the turn of %s is told to end; %s", s.ID, leftBehind(s.OpenTasks))
		return c.show(ctx, a, shown{string(s.ID), s, func() { a.brief(s) }})
	})
}

type sessionLabel struct {
	Session string   `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Label   []string `arg:"" name:"label" help:"KEY=VALUE sets a label, KEY- removes it."`
	DryRun  bool     `help:"Only say what would be done."`
	output
}

// changes are what the words ask for.
func (c *sessionLabel) changes() (perdure.LabelChanges, error) {
	changes := perdure.LabelChanges{}
	for _, word := range c.Label {
		key, value, sets := strings.Cut(word, "=")
		key, removes := strings.CutSuffix(key, "-")
		if sets == removes {
			return nil, misuse("no change of a label: "+quote(word), "KEY=VALUE sets a label, KEY- removes it")
		}
		if _, twice := changes[key]; twice {
			return nil, misuse("the label "+quote(key)+" is named twice", "say once what becomes of it")
		}
		if changes[key] = nil; sets {
			changes[key] = &value
		}
	}
	return changes, nil
}

// Run changes the labels of a session. Those that are not named stay as they are.
func (c *sessionLabel) Run(ctx context.Context, a *app) error {
	if err := c.suits(engine.Session{}); err != nil {
		return err
	}
	changes, err := c.changes()
	if err != nil {
		return err
	}
	return a.with(ctx, writing(c.DryRun), func(eng Engine) error {
		s, err := a.session(ctx, eng, c.Session)
		if err != nil {
			return err
		}
		if c.DryRun {
			next := s.Labels.With(changes)
			a.say("would give %s the labels: %s", s.ID, a.line(labelLine(next), 300))
			return next.Check()
		}
		if s, err = eng.ChangeSession(ctx, s.ID, engine.SessionChange{Labels: changes, By: operator}); err != nil {
			return err
		}
		a.say("%s has the labels: %s", s.ID, a.line(labelLine(s.Labels), 300))
		return c.show(ctx, a, shown{string(s.ID), s, func() { a.brief(s) }})
	})
}

// labelsOf are the labels of a new session, as they are typed.
func labelsOf(typed []string) (perdure.Labels, error) {
	var labels perdure.Labels
	for _, word := range typed {
		key, value, ok := strings.Cut(word, "=")
		if _, twice := labels[key]; !ok || twice {
			return nil, misuse("no label, or one that was named before: "+quote(word), "--label KEY=VALUE, once for each key")
		}
		if labels == nil {
			labels = perdure.Labels{}
		}
		labels[key] = value
	}
	if err := labels.Check(); err != nil {
		return nil, misuse(err.Error(), "--label KEY=VALUE")
	}
	return labels, nil
}

// termsOf are the labels that a list asks for, as they are typed.
func termsOf(typed []string) (perdure.LabelFilter, error) {
	var filter perdure.LabelFilter
	for _, word := range typed {
		filter = append(filter, perdure.LabelTerm(word))
	}
	if err := filter.Check(); err != nil {
		return nil, misuse(err.Error(), "--label KEY, or --label KEY=VALUE")
	}
	return filter, nil
}

// labelLine writes labels in a line, by their keys.
func labelLine(labels perdure.Labels) string {
	words := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		words = append(words, key+"="+labels[key])
	}
	return strings.Join(words, "  ")
}

// changeLine writes changes of labels in a line, as they are typed.
func changeLine(changes perdure.LabelChanges) string {
	words := make([]string, 0, len(changes))
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		if value := changes[key]; value != nil {
			words = append(words, key+"="+*value)
		} else {
			words = append(words, key+"-")
		}
	}
	return strings.Join(words, "  ")
}
