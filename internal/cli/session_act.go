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
	Agent        string        `help:"Create the session from this agent, by name or id." placeholder:"AGENT"`
	Model        string        `help:"Model: openai:NAME, anthropic:NAME, scripted:FILE, or PROVIDER/NAME for a stored provider. Default: the default model." placeholder:"MODEL"`
	BaseURL      string        `name:"base-url" help:"Use this server instead of the provider's own." placeholder:"URL"`
	Workspace    string        `help:"Folder for the files of the session. Default: files are stored in the data directory." placeholder:"DIR" type:"path"`
	Capability   []string      `help:"Add a capability: session_storage, session_sql, session_resources, session_schedule or subagents. Repeatable." placeholder:"NAME"`
	SoftBudget   time.Duration `name:"soft-budget" help:"How long a call may run before it is detached to the background; negative for no limit. Default: 10m." placeholder:"DURATION"`
	Instructions string        `help:"System prompt." placeholder:"TEXT"`
	Title        string        `help:"Title of the session." placeholder:"TEXT"`
	Label        []string      `help:"Add a label. Repeatable." placeholder:"KEY=VALUE" sep:"none"`
	actFlags
}

// Run creates a session without a message.
func (c *sessionNew) Run(ctx context.Context, a *app) error {
	if err := c.checkFields(engine.Session{}); err != nil {
		return err
	}
	talk := &runCommand{Agent: c.Agent, Model: c.Model, BaseURL: c.BaseURL, Workspace: c.Workspace,
		Capability: c.Capability, SoftBudget: c.SoftBudget, Instructions: c.Instructions}
	if err := errors.Join(talk.checkBaseURL(), talk.checkAgentFlags()); err != nil {
		return err
	}
	return a.with(ctx, writesAccess(c.DryRun), func(eng Engine) error {
		start, err := talk.newAgent(ctx, a, eng)
		if err != nil {
			return err
		}
		labels, err := labelsOf(c.Label)
		if err != nil {
			return err
		}
		if c.DryRun {
			a.message("would start a session with %s", a.oneLine(cmp.Or(c.Model, c.Agent), cellChars))
			return nil
		}
		s, err := start(ctx, clip(inLine(c.Title), cellChars), labels)
		if err != nil {
			return fmt.Errorf("start a session: %w", err)
		}
		a.message("created %s; send a prompt with: %s run %s--session %s PROMPT", s.ID, program, a.storeFlags(), s.ID)
		return c.show(ctx, a, outputObject{string(s.ID), s, func() { sessionText{a}.forkSummary(s) }})
	})
}

type sessionInterrupt struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Why     string `help:"Reason; it is recorded in the journal." placeholder:"TEXT"`
	actFlags
}

// Run ends the running turn. Background tasks continue.
func (c *sessionInterrupt) Run(ctx context.Context, a *app) error {
	return c.act(ctx, a, engine.Session{}, func(eng Engine) error {
		s, err := a.session(ctx, eng, c.Session)
		runs := s.Status == perdure.SessionActive
		if err == nil && s.Status == perdure.SessionPaused { // a paused session may have a turn
			var fold *perdure.Session
			if fold, err = foldSession(ctx, eng, s.ID); err == nil {
				runs = fold.Turn != nil
			}
		}
		switch {
		case err != nil:
			return err
		case !runs:
			a.message("nothing was done: %s has no running turn, it is %s", s.ID, s.Status)
			return c.show(ctx, a, outputObject{string(s.ID), s, func() { sessionText{a}.forkSummary(s) }})
		case c.DryRun:
			a.message("would interrupt the turn of %s: %s", s.ID, a.oneLine(s.Title, cellChars))
			return nil
		}
		if err := eng.Sessions().Interrupt(ctx, s.ID, operator, c.Why); err != nil {
			return err
		}
		switch now, err := eng.Sessions().Get(ctx, s.ID); {
		case err == nil:
			s = now
		// unavailable: the server exited with the turn, but the interrupt was recorded
		case !errors.Is(err, perdure.Unavailable):
			return fmt.Errorf("read the session: %w", err)
		}
		a.message("interrupted the turn of %s; %s", s.ID, leftBehind(s.OpenTasks))
		return c.show(ctx, a, outputObject{string(s.ID), s, func() { sessionText{a}.forkSummary(s) }})
	})
}

type sessionLabel struct {
	Session string   `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Label   []string `arg:"" name:"label" help:"KEY=VALUE sets a label, KEY- removes it."`
	actFlags
}

// changes parses the arguments.
func (c *sessionLabel) changes() (perdure.LabelChanges, error) {
	changes := perdure.LabelChanges{}
	for _, word := range c.Label {
		key, value, sets := strings.Cut(word, "=")
		key, removes := strings.CutSuffix(key, "-")
		if sets == removes {
			return nil, usageError("not a label change: "+quote(word), "KEY=VALUE sets a label, KEY- removes it")
		}
		if _, twice := changes[key]; twice {
			return nil, usageError("the label "+quote(key)+" is given twice", "set or remove each label once")
		}
		if changes[key] = nil; sets {
			changes[key] = &value
		}
	}
	return changes, nil
}

// Run changes the labels of a session. Other labels stay as they are.
func (c *sessionLabel) Run(ctx context.Context, a *app) error {
	if err := c.checkFields(engine.Session{}); err != nil {
		return err
	}
	changes, err := c.changes()
	if err != nil {
		return err
	}
	return a.with(ctx, writesAccess(c.DryRun), func(eng Engine) error {
		s, err := a.session(ctx, eng, c.Session)
		if err != nil {
			return err
		}
		if c.DryRun {
			next := s.Labels.With(changes)
			a.message("would change the labels of %s to: %s", s.ID, a.oneLine(labelLine(next), 300))
			return next.Check()
		}
		if s, err = eng.Sessions().Change(ctx, s.ID, engine.SessionChange{Labels: changes, By: operator}); err != nil {
			return err
		}
		a.message("labels of %s: %s", s.ID, a.oneLine(labelLine(s.Labels), 300))
		return c.show(ctx, a, outputObject{string(s.ID), s, func() { sessionText{a}.forkSummary(s) }})
	})
}

// labelsOf parses the labels of a new session.
func labelsOf(typed []string) (perdure.Labels, error) {
	var labels perdure.Labels
	for _, word := range typed {
		key, value, ok := strings.Cut(word, "=")
		if _, twice := labels[key]; !ok || twice {
			return nil, usageError("not a label, or a duplicate: "+quote(word), "use --label KEY=VALUE, once for each key")
		}
		if labels == nil {
			labels = perdure.Labels{}
		}
		labels[key] = value
	}
	if err := labels.Check(); err != nil {
		return nil, usageError(err.Error(), "use --label KEY=VALUE")
	}
	return labels, nil
}

// termsOf parses the label filter of a list.
func termsOf(typed []string) (perdure.LabelFilter, error) {
	var filter perdure.LabelFilter
	for _, word := range typed {
		filter = append(filter, perdure.LabelTerm(word))
	}
	if err := filter.Check(); err != nil {
		return nil, usageError(err.Error(), "use --label KEY or --label KEY=VALUE")
	}
	return filter, nil
}

// labelLine writes labels on one line, sorted by key.
func labelLine(labels perdure.Labels) string {
	words := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		words = append(words, key+"="+labels[key])
	}
	return strings.Join(words, "  ")
}

// changeLine writes label changes on one line, in the syntax of session label.
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
