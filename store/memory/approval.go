package memory

import (
	"fmt"
	"maps"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func (v approvalStore) Get(id perdure.ApprovalID) (perdure.Approval, error) {
	r, ok := v.approvals.get(string(id))
	if !ok {
		return perdure.Approval{}, fmt.Errorf("approval %s: %w", id, perdure.NotFound)
	}
	return cloneApproval(r.value), nil
}

// List lists records in the order in which they were requested.
func (v approvalStore) List(filter store.ApprovalFilter) ([]perdure.Approval, error) {
	if filter.State != "" && !filter.State.Valid() {
		return nil, fmt.Errorf("list approvals: %w state %q", perdure.Invalid, filter.State)
	}
	var found []row[perdure.Approval]
	for _, r := range v.approvals.from("") {
		if (filter.Session == "" || filter.Session == r.value.Session) &&
			(filter.State == "" || filter.State == r.value.State) &&
			(filter.Call == "" || filter.Call == r.value.Call) {
			r.value = cloneApproval(r.value)
			found = append(found, r)
		}
	}
	return first(inOrder(found), filter.Limit), nil
}

// Put adds a record, or overwrites the one with its id.
func (t approvalStore) Put(a perdure.Approval) error {
	if !a.State.Valid() {
		return fmt.Errorf("put approval %s: %w state %q", a.ID, perdure.Invalid, a.State)
	}
	record, err := storedApproval(a)
	if err != nil {
		return fmt.Errorf("put approval %s: %w", a.ID, err)
	}
	r, known := t.approvals.get(string(a.ID))
	switch {
	case !known:
		r.position = t.nextPosition()
	case r.value.Session != a.Session || r.value.Call != a.Call:
		return fmt.Errorf("put approval %s: %w: it belongs to another call or session", a.ID, perdure.Conflict)
	}
	r.value = record
	t.approvals = t.approvals.put(string(a.ID), r)
	return nil
}

// storedApproval returns the record as a store keeps it. The call's id keeps its bytes, as in the
// ledger.
func storedApproval(a perdure.Approval) (perdure.Approval, error) {
	call := a.Call
	a.RequestedAt, a.ExpiresAt, a.DecidedAt = micro(a.RequestedAt), micro(a.ExpiresAt), micro(a.DecidedAt)
	a, err := stored(a)
	a.Call = call
	return a, err
}

func cloneApproval(a perdure.Approval) perdure.Approval {
	a.Args, a.NewArgs = clone(a.Args), clone(a.NewArgs)
	a.Permissions, a.Metadata = slices.Clone(a.Permissions), maps.Clone(a.Metadata)
	return a
}
