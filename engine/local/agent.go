package local

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
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
				cfg.Tools.Offer(t)
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
// with the order. The same order again under one id is one session, whatever became of what it names (N5).
func (e *Engine) StartAgent(ctx context.Context, o tool.SessionOrder) (engine.Session, error) {
	if o.ID == "" {
		o.ID = effect.NewID[perdure.SessionID]()
	}
	if err := e.startOnce(ctx, o); err != nil {
		return engine.Session{}, fmt.Errorf("start a session: %w", err)
	}
	return e.Session(ctx, o.ID)
}

// startOnce starts the session of an order, unless it is there. That is asked before anything else is looked at, since what
// the order names may be gone by then.
func (e *Engine) startOnce(ctx context.Context, o tool.SessionOrder) error {
	digest, err := digestOf(o)
	if err != nil {
		return err
	}
	return e.unlessKnown(ctx, o.ID, perdure.Agent{Order: digest}, func() error {
		made, err := e.overlaid(ctx, o)
		if err != nil {
			return err
		}
		made.agent.Order = digest
		return e.start(ctx, o.ID, made)
	})
}

// unlessKnown starts a session that is not there.
func (e *Engine) unlessKnown(ctx context.Context, id perdure.SessionID, a perdure.Agent, start func() error) error {
	if _, err := perdure.ParseID[perdure.SessionID](string(id)); err != nil {
		return err
	}
	known := false
	err := e.view(ctx, func(r store.Reader) (err error) {
		known, err = sameAgent(r, id, a)
		return err
	})
	if known || err != nil {
		return err
	}
	return start()
}

// start writes what a session begins with.
func (e *Engine) start(ctx context.Context, id perdure.SessionID, made overlaid) error {
	if err := e.seed(ctx, id, made); err != nil {
		return err
	}
	return e.cfg.Store.InTx(ctx, func(tx store.Tx) error { return e.startSession(tx, id, rowOwner(ctx), made) })
}

// digestOf is the same for orders that say the same, and for no others (N5). The id is in it, so that a copy of a session,
// whose first event says the same, was not made by this order.
func digestOf(o tool.SessionOrder) (string, error) {
	config := append([]byte(nil), o.Config...) // nil if there is none; as it is where it will be refused
	if canonical, err := perdure.CanonicalJSON(o.Config); err == nil && o.Blueprint != "" {
		config = canonical
	}
	contents := [][]byte{} // as they are: JSON has only valid UTF-8
	for _, f := range o.Overlay.InitialFiles {
		contents = append(contents, []byte(f.Content))
	}
	return digest(o.ID, o.Agent, o.Harness, o.Blueprint, config, o.Title, o.Locale, o.Overlay, contents)
}

// digest is the SHA-256 of values, as JSON.
func digest(values ...any) (string, error) {
	text, err := json.Marshal(values)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// overlaid is what an order comes to.
type overlaid struct {
	agent perdure.Agent
	files []agent.File
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
		if model = folded.Model; model == "" {
			model, err = modelOf(r, folded.DefaultModel)
		}
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
	brought, err := e.equip(&made.agent)
	if err != nil {
		return made, err
	}
	made.files = agent.Fold(agent.Overlay{InitialFiles: brought}, agent.Overlay{InitialFiles: folded.InitialFiles}).InitialFiles
	return made, nil
}

// equip gives an agent what its capabilities bring, and returns the files among that. Who named neither tools nor
// capabilities has whatever need not be chosen, as long as the session lives.
func (e *Engine) equip(a *perdure.Agent) ([]agent.File, error) {
	collected, err := tool.Collect(e.cfg.Tools, e.cfg.Capabilities, choiceOf(*a))
	if err != nil {
		return nil, err
	}
	names := collected.Registry.Names()
	if a.Tools != nil || len(a.Capabilities) > 0 || slices.ContainsFunc(names, e.cfg.Tools.Offered) {
		a.Tools = names
	}
	a.Instructions = strings.Join(append(nonEmpty(a.Instructions), collected.Prompts...), "\n\n")
	return collected.Files, nil
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

// sameAgent looks for a session that was started before under an id, by the same order or for the same agent (N5). What an
// order is made of may have changed since; the session stays what it was.
func sameAgent(r store.Reader, id perdure.SessionID, a perdure.Agent) (known bool, err error) {
	switch _, err := r.Session(id); {
	case errors.Is(err, perdure.NotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	events, err := r.Events(id, 0, 1)
	if err != nil || len(events) == 0 {
		return false, err
	}
	created, _ := events[0].Fact.(perdure.SessionCreated)
	if created.Agent.Order == "" && len(a.Capabilities) > 0 { // of a version that kept none
		a.Order = ""
	}
	if a.Order != "" && created.Agent.Order == a.Order {
		return true, nil
	}
	asked, err := json.Marshal(a)
	if err != nil {
		return true, err
	}
	stored, err := json.Marshal(created.Agent)
	if err != nil {
		return true, err
	}
	if !bytes.Equal(asked, stored) {
		return true, fmt.Errorf("%w: session %s exists, and was started for something else", perdure.Conflict, id)
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
	if e.cfg.Files == nil || len(made.files) == 0 {
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
func (e *Engine) startSession(tx store.Tx, id perdure.SessionID, of engine.Owner, made overlaid) error {
	if known, err := sameAgent(tx, id, made.agent); known || err != nil {
		return err
	}
	row := store.Session{ID: id, Org: of.Org, User: of.User, Title: made.agent.Title, Labels: made.agent.Labels, Status: perdure.SessionStarted, CreatedAt: tx.Now(), UpdatedAt: tx.Now()}
	rand.Read(row.Secret[:]) // never fails
	if err := tx.CreateSession(row); err != nil {
		return err
	}
	if e.cfg.Files == nil {
		files := sessionfile.New(e.cfg.Store, id, false)
		for _, f := range made.files {
			if err := files.SeedIn(tx, tool.InitialFile(f)); err != nil {
				return fmt.Errorf("initial file %s: %w", f.Path, err)
			}
		}
	}
	return e.append(tx, id, perdure.Event{Actor: "user", Fact: perdure.SessionCreated{Agent: made.agent}})
}
