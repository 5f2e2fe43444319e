package local

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// withCapabilities puts the tools of the capabilities among the engine's, and their hooks after the host's. The host's own
// registry stays as it is.
func withCapabilities(cfg Config) (Config, error) {
	all, err := tool.Capabilities(cfg.Tools, cfg.Capabilities)
	if err != nil || len(cfg.Capabilities) == 0 {
		return cfg, err
	}
	cfg.Tools, cfg.Hooks = cfg.Tools.Snapshot(), slices.Clone(cfg.Hooks)
	names := []string{}
	for _, c := range all {
		names = append(names, c.ID)
		for _, t := range c.Tools {
			if !cfg.Tools.Has(t.Spec().Name) {
				cfg.Tools.Register(t)
			}
		}
		cfg.Hooks = append(cfg.Hooks, c.OwnHooks()...)
	}
	if err := cfg.Tools.Err(); err != nil {
		return cfg, err
	}
	_, err = tool.Collect(cfg.Tools, cfg.Capabilities, tool.Choice{Capabilities: names}) // the same name for two tools, for one
	return cfg, err
}

// StartAgent starts a session of a kept agent, a chain of harnesses, or a blueprint: their overlays are folded, root first,
// the session's own last, and what they come to is fixed in session.created (N8, N9). Its initial files are in the same
// commit; where the host keeps the files, they are written before it.
//
// NotFound: an agent, a harness that is named without one, a blueprint, a tool, a capability or a model is not there.
// Conflict: the agent or a harness is archived or deleted, or the id stands for another session. Invalid: what is wrong
// with the order. The same order again under one id is one session (N5).
func (e *Engine) StartAgent(ctx context.Context, o tool.SessionOrder) (engine.Session, error) {
	if o.ID == "" {
		o.ID = effect.NewID[perdure.SessionID]()
	}
	_, err := perdure.ParseID[perdure.SessionID](string(o.ID))
	var made overlaid
	if err == nil {
		made, err = e.overlaid(ctx, o)
	}
	if err == nil {
		err = e.seed(ctx, o.ID, made)
	}
	if err == nil {
		err = e.cfg.Store.InTx(ctx, func(tx store.Tx) error { return e.startSession(tx, o, made) })
	}
	if err != nil {
		return engine.Session{}, fmt.Errorf("start a session: %w", err)
	}
	return e.Session(ctx, o.ID)
}

// overlaid is what an order comes to.
type overlaid struct {
	agent perdure.Agent
	files []agent.File
	known bool // the session is there already
}

// overlaid reads what the order names, folds it, and puts in what this engine has: tools, words and the model.
func (e *Engine) overlaid(ctx context.Context, o tool.SessionOrder) (made overlaid, err error) {
	preset, err := e.blueprint(o)
	if err != nil {
		return made, err
	}
	var folded agent.Overlay
	var model string
	var harness perdure.HarnessID
	err = e.view(ctx, func(r store.Reader) error {
		layers, leaf, err := layersOf(r, o)
		if err != nil {
			return err
		}
		harness = leaf
		folded = agent.Fold(append(layers, preset, o.Overlay, agent.Overlay{Locale: o.Locale})...)
		if model, err = modelOf(r, folded.DefaultModel); err != nil {
			return err
		}
		made.known, err = sameOrder(r, o, leaf)
		return err
	})
	if err != nil {
		return made, err
	}
	made.agent, err = agent.Resolve(folded)
	if err != nil {
		return made, err
	}
	made.agent.ID, made.agent.Harness, made.agent.Model = o.Agent, harness, model
	made.agent.Title = strings.ToValidUTF8(o.Title, "\ufffd")
	collected, err := tool.Collect(e.cfg.Tools, e.cfg.Capabilities, choiceOf(made.agent))
	if err != nil {
		return made, err
	}
	if made.agent.Tools != nil { // nil is all of them, whatever the engine has
		made.agent.Tools = collected.Registry.Names()
	}
	made.agent.Instructions = strings.Join(append(nonEmpty(made.agent.Instructions), collected.Prompts...), "\n\n")
	made.files = agent.Fold(agent.Overlay{InitialFiles: collected.Files}, agent.Overlay{InitialFiles: folded.InitialFiles}).InitialFiles
	return made, nil
}

// choiceOf is what a resolved agent wants of the engine.
func choiceOf(a perdure.Agent) tool.Choice {
	c := tool.Choice{Capabilities: a.Capabilities, Tools: a.Tools, AllTools: a.Tools == nil}
	if a.DisableBackground {
		c.Off = []string{tool.BackgroundCapability}
	}
	return c
}

func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// layersOf returns the overlays of the harnesses and the agent that an order names, root first, and the leaf of the chain.
func layersOf(r store.Reader, o tool.SessionOrder) (layers []agent.Overlay, leaf perdure.HarnessID, err error) {
	leaf = o.Harness
	var kept agent.Agent
	if o.Agent != "" {
		found := false
		switch kept, found, err = r.Agent(o.Agent); {
		case err != nil:
			return nil, "", err
		case !found:
			return nil, "", fmt.Errorf("agent %s: %w", o.Agent, perdure.NotFound)
		case !kept.Status.Works():
			return nil, "", fmt.Errorf("%w: agent %s is %s", perdure.Conflict, o.Agent, kept.Status)
		case leaf == "":
			leaf = kept.Harness
		}
	}
	chain, err := r.HarnessChain(leaf)
	if err != nil {
		return nil, "", err
	}
	stands := kept.Harness == ""
	for _, h := range chain {
		stands = stands || h.ID == kept.Harness
		layers = append(layers, h.Overlay)
	}
	switch why, ok := agent.Broken(chain); {
	case leaf != "" && len(chain) == 0:
		return nil, "", fmt.Errorf("harness %s: %w", leaf, perdure.NotFound)
	case !ok:
		return nil, "", fmt.Errorf("%w: %s", perdure.Conflict, why)
	case !stands: // else its limits could be left behind
		return nil, "", fmt.Errorf("%w harness %s: agent %s is of %s, which it does not stand on", perdure.Invalid, leaf, o.Agent, kept.Harness)
	}
	return append(layers, kept.Overlay), leaf, nil
}

// modelOf is the name of the model that is asked: the one of an id, else the default one, else the engine's (N10).
func modelOf(r store.Reader, id perdure.ModelID) (string, error) {
	m, found, err := r.DefaultModel()
	if id != "" {
		m, found, err = r.Model(id)
	}
	if err != nil || found {
		return m.Name, err
	}
	if id != "" {
		return "", fmt.Errorf("model %s: %w", id, perdure.NotFound)
	}
	return "", nil
}

// sameOrder looks for a session that was started before under the id of an order (N5). What it is made of may have changed
// since; it stays what it was.
func sameOrder(r store.Reader, o tool.SessionOrder, leaf perdure.HarnessID) (known bool, err error) {
	switch _, err := r.Session(o.ID); {
	case errors.Is(err, perdure.NotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	events, err := r.Events(o.ID, 0, 1)
	if err != nil || len(events) == 0 {
		return true, err
	}
	created, _ := events[0].Fact.(perdure.SessionCreated)
	if created.Agent.ID != o.Agent || created.Agent.Harness != leaf || created.Agent.Title != strings.ToValidUTF8(o.Title, "\ufffd") {
		return true, fmt.Errorf("%w: session %s exists, and was started for something else", perdure.Conflict, o.ID)
	}
	return true, nil
}

// blueprint completes the blueprint that an order names.
func (e *Engine) blueprint(o tool.SessionOrder) (agent.Overlay, error) {
	i := slices.IndexFunc(e.cfg.Blueprints, func(b tool.Blueprint) bool { return b.Name == o.Blueprint })
	switch {
	case o.Blueprint == "" && len(o.Config) > 0:
		return agent.Overlay{}, fmt.Errorf("%w config: it is a blueprint's, and none is named", perdure.Invalid)
	case o.Blueprint == "":
		return agent.Overlay{}, nil
	case o.Agent != "":
		return agent.Overlay{}, fmt.Errorf("%w order: it names an agent and a blueprint; one of them is enough", perdure.Invalid)
	case i < 0:
		return agent.Overlay{}, fmt.Errorf("blueprint %q: %w", o.Blueprint, perdure.NotFound)
	}
	b, config := e.cfg.Blueprints[i], o.Config
	if len(config) == 0 {
		config = json.RawMessage(`{}`)
	}
	schema := b.Schema
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object","maxProperties":0}`)
	}
	if fault := tool.CheckJSON(schema, config); fault != "" {
		return agent.Overlay{}, fmt.Errorf("%w config of blueprint %q: %s", perdure.Invalid, b.Name, fault)
	}
	made, err := b.Make(config)
	if err != nil {
		return agent.Overlay{}, fmt.Errorf("blueprint %q: %w", b.Name, err)
	}
	return made, nil
}

// seed writes the initial files where the host keeps them. A crash may leave them there without their session; the same order
// writes the same again.
func (e *Engine) seed(ctx context.Context, id perdure.SessionID, made overlaid) error {
	if e.cfg.Files == nil || made.known || len(made.files) == 0 {
		return nil
	}
	files, _ := e.cfg.Files(id)
	for _, readOnly := range []bool{true, false} { // those that some files cannot keep come first, before anything is written
		for _, f := range made.files {
			if f.IsReadOnly != readOnly {
				continue
			}
			if err := tool.SeedFile(ctx, files, tool.InitialFile(f)); err != nil {
				return fmt.Errorf("initial file %s: %w", f.Path, err)
			}
		}
	}
	return nil
}

// startSession is the commit: the row, the files that the store keeps, and the first event.
func (e *Engine) startSession(tx store.Tx, o tool.SessionOrder, made overlaid) error {
	if known, err := sameOrder(tx, o, made.agent.Harness); known || err != nil {
		return err
	}
	row := store.Session{ID: o.ID, Title: made.agent.Title, Status: perdure.SessionStarted, CreatedAt: tx.Now(), UpdatedAt: tx.Now()}
	rand.Read(row.Secret[:]) // never fails
	if err := tx.CreateSession(row); err != nil {
		return err
	}
	if e.cfg.Files == nil {
		files := sessionfile.New(e.cfg.Store, o.ID, false)
		for _, f := range made.files {
			if err := files.SeedIn(tx, tool.InitialFile(f)); err != nil {
				return fmt.Errorf("initial file %s: %w", f.Path, err)
			}
		}
	}
	return e.append(tx, o.ID, perdure.Event{Actor: "user", Fact: perdure.SessionCreated{Agent: made.agent}})
}
