package host

import (
	"bytes"
	"cmp"
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
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/sessionfile"
	"github.com/perdure/perdure/internal/strictjson"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// withCapabilities adds the tools of the capabilities to a copy of the host's registry, and their
// hooks after the host's hooks.
func withCapabilities(cfg Config) (Config, error) {
	all, err := tool.Capabilities(cfg.Tools, cfg.Catalogue.Capabilities)
	if err != nil || len(cfg.Catalogue.Capabilities) == 0 {
		return cfg, err
	}
	cfg.Tools, cfg.Policies.Hooks = cfg.Tools.Snapshot(), slices.Clone(cfg.Policies.Hooks)
	names := []string{}
	for _, c := range all {
		names = append(names, c.ID)
		for _, t := range c.Tools {
			if !cfg.Tools.Has(t.Spec().Name) {
				cfg.Tools.RegisterOptional(t)
			}
		}
		cfg.Policies.Hooks = append(cfg.Policies.Hooks, c.ScopedHooks()...)
	}
	if err := cfg.Tools.Err(); err != nil {
		return cfg, err
	}
	// Collect refuses two tools with one name.
	_, err = tool.Collect(cfg.Tools, cfg.Catalogue.Capabilities, tool.Choice{Capabilities: names})
	return cfg, err
}

// StartAgent creates a session from a stored agent, a chain of harnesses or a blueprint. It merges
// their overlays, root first and the session's own overlay last, and records the result in
// session.created (N8, N9). The initial files are part of the same commit. If the host keeps the
// files, they are written before the commit.
//
// NotFound: the agent, harness, blueprint, tool, capability or model does not exist. Conflict: the
// agent or harness is archived or deleted, or the id belongs to another session. Invalid: the order
// is not valid; the error says why. The same order under the same id is one session, whatever has
// happened to the agent since (N5).
func (e *Host) StartAgent(ctx context.Context, o tool.SessionRequest) (engine.Session, error) {
	o.ID = cmp.Or(o.ID, core.NewID[perdure.SessionID]())
	if err := (hostAgents{e}).startOnce(ctx, o); err != nil {
		return engine.Session{}, fmt.Errorf("start a session: %w", err)
	}
	return e.Sessions().Get(ctx, o.ID)
}

// startOnce creates the session of an order unless it exists. The check for an existing session
// comes first, because the agent that the order names may be gone by then.
func (e hostAgents) startOnce(ctx context.Context, o tool.SessionRequest) error {
	digest, err := orderDigest(o)
	if err != nil {
		return err
	}
	return e.startUnlessExists(ctx, o.ID, perdure.Agent{CreateDigest: digest}, func() error {
		made, err := e.resolveOrder(ctx, o)
		if err != nil {
			return err
		}
		made.agent.CreateDigest = digest
		return e.start(ctx, o.ID, made)
	})
}

// startUnlessExists calls start if the session does not exist yet. Of several callers that create
// it at the same time, one does, and the others find it.
func (e hostAgents) startUnlessExists(ctx context.Context, id perdure.SessionID, a perdure.Agent, start func() error) error {
	if _, err := perdure.ParseID[perdure.SessionID](string(id)); err != nil {
		return err
	}
	exists := func() (bool, error) {
		return store.Read(ctx, e.cfg.Store, func(r store.Reader) (bool, error) { return sameAgent(r, id, a) })
	}
	if known, err := exists(); known || err != nil {
		return err
	}
	err := start()
	if errors.Is(err, perdure.Conflict) { // on Postgres the transaction did not see the one that it waited for
		if known, other := exists(); known || other != nil {
			return other
		}
	}
	return err
}

// start seeds the initial files and commits a new session.
func (e hostAgents) start(ctx context.Context, id perdure.SessionID, made resolvedAgent) error {
	if err := e.writeInitialFiles(ctx, id, made); err != nil {
		return err
	}
	return e.cfg.Store.InTx(ctx, func(tx store.Tx) error { return e.startSession(tx, id, rowOwner(ctx), made) })
}

// orderDigest identifies an order by its content (N5). The digest covers the session id, so that an
// imported copy of a session under another id, whose first event is the same, does not match the
// order.
func orderDigest(o tool.SessionRequest) (string, error) {
	config := append([]byte(nil), o.Config...) // an invalid config stays as it is; a later check refuses it
	if canonical, err := strictjson.Canonical(o.Config); err == nil && o.Blueprint != "" {
		config = canonical
	}
	contents := [][]byte{} // as bytes: a JSON string would replace invalid UTF-8
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

// resolvedAgent is the resolved form of an order.
type resolvedAgent struct {
	agent perdure.Agent
	files []agent.File
}

// resolveOrder resolves an order: it merges the overlays and adds this engine's tools, prompts and
// model.
func (e hostAgents) resolveOrder(ctx context.Context, o tool.SessionRequest) (made resolvedAgent, err error) {
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
			model, err = e.modelOf(r, folded.DefaultModel)
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
	made.agent = e.bounded(made.agent)
	brought, err := e.addCapabilities(ctx, &made.agent)
	if err != nil {
		return made, err
	}
	made.files = agent.Fold(agent.Overlay{InitialFiles: brought},
		agent.Overlay{InitialFiles: folded.InitialFiles}).InitialFiles
	return made, nil
}

// addCapabilities adds the tools and instructions of an agent's capabilities, and returns their
// files. If the agent names neither tools nor capabilities, Tools stays nil, and the session has
// every tool that needs no selection. Tools that are still expected are awaited; the session is
// created even if they do not come, and has them when they do.
func (e hostAgents) addCapabilities(ctx context.Context, a *perdure.Agent) ([]agent.File, error) {
	e.cfg.Tools.Await(ctx, a.Capabilities, a.Tools)
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	collected, err := tool.Collect(e.cfg.Tools, e.cfg.Catalogue.Capabilities, choiceOf(*a))
	if err != nil {
		return nil, err
	}
	names := collected.Registry.Names()
	for _, name := range a.Tools {
		if _, later := e.cfg.Tools.Expects(name); later && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if a.Tools != nil || len(a.Capabilities) > 0 || slices.ContainsFunc(names, e.cfg.Tools.Optional) {
		a.Tools = names
	}
	a.Instructions = strings.Join(append(nonEmpty(a.Instructions), collected.Prompts...), "\n\n")
	return collected.Files, nil
}

// choiceOf returns the tools and capabilities that a resolved agent selects.
func choiceOf(a perdure.Agent) tool.Choice {
	c := tool.Choice{Capabilities: a.Capabilities, Tools: a.Tools, AllTools: a.Tools == nil}
	if a.DisableBackground {
		c.Disabled = []string{tool.BackgroundCapability}
	}
	return c
}

func nonEmpty(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// layersOf returns the overlays of an order's harnesses and agent, root first, and the last harness
// of the chain.
func layersOf(r store.Reader, o tool.SessionRequest) (layers []agent.Overlay, leaf perdure.HarnessID, err error) {
	leaf = o.Harness
	var kept agent.Agent
	if o.Agent != "" {
		found := false
		switch kept, found, err = r.Directory().Agents().Get(o.Agent); {
		case err != nil:
			return nil, "", err
		case !found:
			return nil, "", fmt.Errorf("agent %s: %w", o.Agent, perdure.NotFound)
		case !kept.Status.Usable():
			return nil, "", fmt.Errorf("%w: agent %s is %s", perdure.Conflict, o.Agent, kept.Status)
		case leaf == "":
			leaf = kept.Harness
		}
	}
	chain, err := r.Directory().Harnesses().Chain(leaf)
	if err != nil {
		return nil, "", err
	}
	stands := kept.Harness == ""
	for _, h := range chain {
		stands = stands || h.ID == kept.Harness
		layers = append(layers, h.Overlay)
	}
	switch why, ok := agent.FirstUnusable(chain); {
	case leaf != "" && len(chain) == 0:
		return nil, "", fmt.Errorf("harness %s: %w", leaf, perdure.NotFound)
	case !ok:
		return nil, "", fmt.Errorf("%w: %s", perdure.Conflict, why)
	case !stands: // a chain without the agent's harness would avoid its limits
		return nil, "", fmt.Errorf("%w harness %s: it does not inherit from the harness of agent %s, which is %s",
			perdure.Invalid, leaf, o.Agent, kept.Harness)
	}
	return append(layers, kept.Overlay), leaf, nil
}

// modelOf returns the name of a stored model; empty for an empty id: the session gets a default
// when it is created (N10).
func (e hostAgents) modelOf(r store.Reader, id perdure.ModelID) (string, error) {
	if id == "" {
		return "", nil
	}
	m, found, err := r.Directory().Models().Get(id)
	switch {
	case err != nil:
		return "", err
	case !found:
		return "", fmt.Errorf("model %s: %w", id, perdure.NotFound)
	}
	return rowName(r, m, e.cfg.Catalogue.Providers.ByProvider)
}

// sameAgent reports whether session id exists and was created by the same order or for the same
// agent (N5). Another order or agent is Conflict. The agent may have changed since; the session
// keeps the configuration that it began with.
func sameAgent(r store.Reader, id perdure.SessionID, a perdure.Agent) (known bool, err error) {
	switch _, err := r.Sessions().Get(id); {
	case errors.Is(err, perdure.NotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	events, err := r.Journal().Events(id, 0, 1)
	if err != nil || len(events) == 0 {
		return false, err
	}
	created, _ := events[0].Fact.(perdure.SessionCreated)
	if created.Agent.CreateDigest == "" && len(a.Capabilities) > 0 { // recorded by a version without order digests
		a.CreateDigest = ""
	}
	if a.CreateDigest == "" && a.Model == "" && created.Agent.CreateDigest != "" { // it may have got a default model
		if a.CreateDigest, err = digest(id, a); err != nil {
			return true, err
		}
	}
	if a.CreateDigest != "" && created.Agent.CreateDigest == a.CreateDigest {
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
		return true, fmt.Errorf("%w: session %s already exists for another agent or order", perdure.Conflict, id)
	}
	return true, nil
}

// blueprint builds the overlay of the blueprint that an order names.
func (e hostAgents) blueprint(o tool.SessionRequest) (agent.Overlay, error) {
	i := slices.IndexFunc(e.cfg.Catalogue.Blueprints, func(b tool.Blueprint) bool { return b.Name == o.Blueprint })
	switch {
	case o.Blueprint == "" && len(o.Config) > 0:
		return agent.Overlay{}, fmt.Errorf("%w config: it needs a blueprint, and the order names none", perdure.Invalid)
	case o.Blueprint == "":
		return agent.Overlay{}, nil
	case o.Agent != "":
		return agent.Overlay{}, fmt.Errorf("%w order: it must name an agent or a blueprint, not both", perdure.Invalid)
	case i < 0:
		return agent.Overlay{}, fmt.Errorf("blueprint %q: %w", o.Blueprint, perdure.NotFound)
	}
	b, config := e.cfg.Catalogue.Blueprints[i], o.Config
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

// writeInitialFiles writes the initial files if the host keeps the files. A crash can leave them
// behind without a session; the same order writes the same files again.
func (e hostAgents) writeInitialFiles(ctx context.Context, id perdure.SessionID, made resolvedAgent) error {
	if e.cfg.Ports.Files == nil || len(made.files) == 0 {
		return nil
	}
	files, _ := e.cfg.Ports.Files(id)
	for _, readOnly := range []bool{true, false} { // a host that cannot store read-only files fails before any write
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

// addDefaultModel gives an agent without a model the default of its org, if there is one. The
// digest of the order is recorded with it, so that the same order is the same session although the
// default may have changed.
func (e *Host) addDefaultModel(r store.Reader, id perdure.SessionID, org string, a *perdure.Agent) error {
	if a.Model != "" {
		return nil
	}
	found, err := e.defaultModel(r, org)
	if err != nil || found.Name == "" {
		return err
	}
	if a.CreateDigest == "" {
		if a.CreateDigest, err = digest(id, *a); err != nil {
			return err
		}
	}
	a.Model = found.Name
	return nil
}

// startSession creates the session in one commit: its row, the files that the store keeps, and the
// first event.
func (e hostAgents) startSession(tx store.Tx, id perdure.SessionID, of engine.Owner, made resolvedAgent) error {
	if known, err := sameAgent(tx.Reader(), id, made.agent); known || err != nil {
		return err
	}
	if err := e.addDefaultModel(tx.Reader(), id, of.Org, &made.agent); err != nil {
		return err
	}
	row := store.Session{
		ID: id, Org: of.Org, User: of.User, Title: made.agent.Title, Labels: made.agent.Labels,
		Status: perdure.SessionStarted, Home: e.effects.HomeOfNew(made.agent), CreatedAt: tx.Now(), UpdatedAt: tx.Now(),
	}
	rand.Read(row.Secret[:]) // never fails
	if err := tx.Sessions().Create(row); err != nil {
		return err
	}
	if e.cfg.Ports.Files == nil {
		files := sessionfile.New(e.cfg.Store, id, false)
		for _, f := range made.files {
			if err := files.SeedIn(tx, tool.InitialFile(f)); err != nil {
				return fmt.Errorf("initial file %s: %w", f.Path, err)
			}
		}
	}
	err := e.append(tx, id, perdure.Event{Actor: "user", Fact: perdure.SessionCreated{Agent: made.agent}})
	if err != nil || e.cfg.Billing.SessionLimit <= 0 {
		return err
	}
	return hostBudgets{e.Host}.setSessionLimit(tx, id)
}

// bounded returns an agent within the limits of this engine for the steps, calls and turns of any
// agent. An agent that sets none has them.
func (e *Host) bounded(a perdure.Agent) perdure.Agent {
	limits := e.cfg.Limits
	for _, of := range []struct {
		own   *int
		limit int
	}{
		{&a.MaxIterations, limits.Iterations}, {&a.MaxParallelCalls, limits.ParallelCalls},
		{&a.MaxContinuations, limits.Continuations},
	} {
		if of.limit > 0 && (*of.own <= 0 || *of.own > of.limit) {
			*of.own = of.limit
		}
	}
	return a
}
