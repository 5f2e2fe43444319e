package sessionport

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/store"
)

// PutAgent writes an agent in the name of the context's actor, and an entry in the audit log, in
// one commit: who may change what an agent is allowed to do is security relevant (S26). Its errors
// are those of [store.AgentWriter].
func PutAgent(ctx context.Context, tx store.Tx, a agent.Agent) (agent.Agent, error) {
	a.By = store.ActorOf(ctx)
	put, err := tx.Directory().Agents().Put(a)
	if err == nil {
		err = addAudit(tx,
			auditSubject{"agent", string(put.ID), put.Name, string(put.Harness), put.Version, put.Status, put.Overlay}, put.By)
	}
	return put, err
}

// PutHarness is [Agents.Put] for a harness.
func PutHarness(ctx context.Context, tx store.Tx, h agent.Harness) (agent.Harness, error) {
	h.By = store.ActorOf(ctx)
	put, err := tx.Directory().Harnesses().Put(h)
	if err == nil {
		err = addAudit(tx,
			auditSubject{"harness", string(put.ID), put.Name, string(put.Parent), put.Version, put.Status, put.Overlay}, put.By)
	}
	return put, err
}

// auditSubject is what the audit log records of an agent or a harness.
type auditSubject struct {
	noun, id, name, harness string
	version                 int64
	status                  agent.Status
	overlay                 agent.Overlay
}

// addAudit adds the write to the audit log. Of the overlay the log has only the hash: its content
// must not be logged.
func addAudit(tx store.Tx, k auditSubject, actor string) error {
	text, err := json.Marshal(k.overlay)
	if err != nil {
		return err
	}
	return tx.Audit().Add(store.AuditEntry{
		Actor: actor, Action: k.noun + "." + k.action(), Subject: k.id,
		Detail: map[string]string{
			"name": k.name, "version": strconv.FormatInt(k.version, 10), "harness_id": k.harness,
			"overlay": store.AuditHash(text),
		},
	})
}

// action is the action of a write as the audit log names it.
func (k auditSubject) action() string {
	switch {
	case !k.status.Usable():
		return string(k.status)
	case k.version == 1:
		return "created"
	}
	return "changed"
}
