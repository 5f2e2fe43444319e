package sessionport

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/store"
)

// PutAgent writes an agent for whoever acts, and what was done to the audit log, in one commit: who may write what an agent may
// do decides what is done (S26). Its errors are those of [store.AgentWriter].
func PutAgent(ctx context.Context, tx store.Tx, a agent.Agent) (agent.Agent, error) {
	a.By = store.ActorOf(ctx)
	put, err := tx.PutAgent(a)
	if err == nil {
		err = account(tx, kept{"agent", string(put.ID), put.Name, string(put.Harness), put.Version, put.Status, put.Overlay}, put.By)
	}
	return put, err
}

// PutHarness is [PutAgent] for a harness.
func PutHarness(ctx context.Context, tx store.Tx, h agent.Harness) (agent.Harness, error) {
	h.By = store.ActorOf(ctx)
	put, err := tx.PutHarness(h)
	if err == nil {
		err = account(tx, kept{"harness", string(put.ID), put.Name, string(put.Parent), put.Version, put.Status, put.Overlay}, put.By)
	}
	return put, err
}

// kept is what the audit log is told of a harness or an agent.
type kept struct {
	noun, id, name, harness string
	version                 int64
	status                  agent.Status
	overlay                 agent.Overlay
}

// account adds to the audit log what became of it, and by a hash what it says: that itself is nobody's words for a log.
func account(tx store.Tx, k kept, actor string) error {
	text, err := json.Marshal(k.overlay)
	if err != nil {
		return err
	}
	return tx.AddAudit(store.AuditEntry{
		Actor: actor, Action: k.noun + "." + k.deed(), Subject: k.id,
		Detail: map[string]string{"name": k.name, "version": strconv.FormatInt(k.version, 10), "harness_id": k.harness, "overlay": store.AuditHash(text)},
	})
}

// deed is what a write did, in the word of the audit log.
func (k kept) deed() string {
	switch {
	case !k.status.Works():
		return string(k.status)
	case k.version == 1:
		return "created"
	}
	return "changed"
}
