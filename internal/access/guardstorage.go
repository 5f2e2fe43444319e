package access

import (
	"context"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// File returns a file or directory of a session.
func (g *Guard) File(ctx context.Context, id perdure.SessionID, path string, content bool) (engine.File, error) {
	ctx, err := g.session(ctx, Read, id)
	if err != nil {
		return engine.File{}, err
	}
	return g.inner.File(ctx, id, path, content)
}

// Files lists what stands in a directory.
func (g *Guard) Files(ctx context.Context, id perdure.SessionID, dir string, deep bool) ([]engine.File, error) {
	ctx, err := g.session(ctx, Read, id)
	if err != nil {
		return nil, err
	}
	return g.inner.Files(ctx, id, dir, deep)
}

// WriteFile writes a file.
func (g *Guard) WriteFile(ctx context.Context, id perdure.SessionID, w engine.FileWrite) (engine.File, error) {
	ctx, err := g.session(ctx, Write, id)
	if err != nil {
		return engine.File{}, err
	}
	return g.inner.WriteFile(ctx, id, w)
}

// RemoveFile removes a file or directory.
func (g *Guard) RemoveFile(ctx context.Context, id perdure.SessionID, r engine.FileRemoval) error {
	ctx, err := g.session(ctx, Write, id)
	if err != nil {
		return err
	}
	return g.inner.RemoveFile(ctx, id, r)
}

// MoveFile gives a file or directory another path.
func (g *Guard) MoveFile(ctx context.Context, id perdure.SessionID, m engine.FileMove) (engine.File, error) {
	ctx, err := g.session(ctx, Write, id)
	if err != nil {
		return engine.File{}, err
	}
	return g.inner.MoveFile(ctx, id, m)
}

// Values lists the values of a session.
func (g *Guard) Values(ctx context.Context, id perdure.SessionID, prefix string) ([]engine.ValueStat, error) {
	ctx, err := g.session(ctx, Read, id)
	if err != nil {
		return nil, err
	}
	return g.inner.Values(ctx, id, prefix)
}

// Value returns a value.
func (g *Guard) Value(ctx context.Context, id perdure.SessionID, key string) (engine.Value, error) {
	ctx, err := g.session(ctx, Read, id)
	if err != nil {
		return engine.Value{}, err
	}
	return g.inner.Value(ctx, id, key)
}

// SetValue writes a value.
func (g *Guard) SetValue(ctx context.Context, id perdure.SessionID, w engine.ValueWrite) (engine.Value, error) {
	ctx, err := g.session(ctx, Write, id)
	if err != nil {
		return engine.Value{}, err
	}
	return g.inner.SetValue(ctx, id, w)
}

// RemoveValue removes a value.
func (g *Guard) RemoveValue(ctx context.Context, id perdure.SessionID, key string, read *engine.ValueStat) error {
	ctx, err := g.session(ctx, Write, id)
	if err != nil {
		return err
	}
	return g.inner.RemoveValue(ctx, id, key, read)
}

// Secrets lists the secrets of a session, without their values.
func (g *Guard) Secrets(ctx context.Context, id perdure.SessionID) ([]engine.Secret, error) {
	ctx, err := g.session(ctx, Read, id)
	if err != nil {
		return nil, err
	}
	return g.inner.Secrets(ctx, id)
}

// SetSecret seals a value.
func (g *Guard) SetSecret(ctx context.Context, id perdure.SessionID, w engine.SecretWrite) error {
	ctx, err := g.session(ctx, Write, id)
	if err != nil {
		return err
	}
	return g.inner.SetSecret(ctx, id, w)
}

// RemoveSecret removes a secret.
func (g *Guard) RemoveSecret(ctx context.Context, id perdure.SessionID, name string) error {
	ctx, err := g.session(ctx, Write, id)
	if err != nil {
		return err
	}
	return g.inner.RemoveSecret(ctx, id, name)
}

// Resources lists what stands beside a session.
func (g *Guard) Resources(ctx context.Context, id perdure.SessionID) ([]engine.SessionResource, error) {
	ctx, err := g.session(ctx, Read, id)
	if err != nil {
		return nil, err
	}
	return g.inner.Resources(ctx, id)
}

// Resource returns what stands beside a session.
func (g *Guard) Resource(ctx context.Context, id perdure.SessionID, resource string) (engine.SessionResource, error) {
	ctx, err := g.session(ctx, Read, id)
	if err != nil {
		return engine.SessionResource{}, err
	}
	return g.inner.Resource(ctx, id, resource)
}

// ReleaseResource records that a resource is gone. It is believed without a look, so it is a person's word.
func (g *Guard) ReleaseResource(ctx context.Context, id perdure.SessionID, resource, by string) (engine.SessionResource, error) {
	ctx, err := g.session(ctx, Approve, id)
	if err != nil {
		return engine.SessionResource{}, err
	}
	return g.inner.ReleaseResource(ctx, id, resource, by)
}

// ChangeSession changes the title and the labels of a session.
func (g *Guard) ChangeSession(ctx context.Context, id perdure.SessionID, o engine.SessionChange) (engine.Session, error) {
	ctx, err := g.session(ctx, Write, id)
	if err != nil {
		return engine.Session{}, err
	}
	return g.inner.ChangeSession(ctx, id, o)
}

// CancelWhere asks for the end of many tasks of the principal's org.
func (g *Guard) CancelWhere(ctx context.Context, o engine.BulkCancel) (engine.Bulk, error) {
	ctx, _, asks, err := g.enter(ctx, Write)
	if err != nil {
		return engine.Bulk{}, err
	}
	if asks {
		all, err := g.inner.Tasks(ctx, o.Filter.Session)
		own, err := ours(ctx, g, all, err, func(t perdure.Task) perdure.SessionID { return t.Session })
		if err != nil {
			return engine.Bulk{}, err
		}
		o.Of = map[perdure.SessionID]bool{}
		for _, t := range own {
			o.Of[t.Session] = true
		}
	}
	return g.inner.CancelWhere(ctx, o)
}

// Bulk returns one of the principal's org.
func (g *Guard) Bulk(ctx context.Context, id perdure.BulkID) (engine.Bulk, error) {
	ctx, _, _, err := g.enter(ctx, Read)
	if err != nil {
		return engine.Bulk{}, err
	}
	return g.inner.Bulk(ctx, id)
}
