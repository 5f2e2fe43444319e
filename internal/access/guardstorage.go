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

// Files lists a directory.
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

// MoveFile moves a file or directory.
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

// SetSecret stores a secret.
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

// Resources lists the external resources of a session.
func (g *Guard) Resources(ctx context.Context, id perdure.SessionID) ([]engine.SessionResource, error) {
	ctx, err := g.session(ctx, Read, id)
	if err != nil {
		return nil, err
	}
	return g.inner.Resources(ctx, id)
}

// Resource returns an external resource of a session.
func (g *Guard) Resource(ctx context.Context, id perdure.SessionID, resource string) (engine.SessionResource, error) {
	ctx, err := g.session(ctx, Read, id)
	if err != nil {
		return engine.SessionResource{}, err
	}
	return g.inner.Resource(ctx, id, resource)
}

// ReleaseResource records that a resource no longer exists. It is a statement of a person that
// nobody verifies, so it requires the scope approve.
func (g *Guard) ReleaseResource(
	ctx context.Context, id perdure.SessionID, resource, by string,
) (engine.SessionResource, error) {
	ctx, err := g.session(ctx, Approve, id)
	if err != nil {
		return engine.SessionResource{}, err
	}
	return g.inner.ReleaseResource(ctx, id, resource, by)
}

// ChangeSession changes the title and the labels of a session.
func (g *Guard) ChangeSession(
	ctx context.Context, id perdure.SessionID, o engine.SessionChange,
) (engine.Session, error) {
	ctx, err := g.session(ctx, Write, id)
	if err != nil {
		return engine.Session{}, err
	}
	return g.inner.ChangeSession(ctx, id, o)
}

// CancelWhere requests the end of many tasks of the principal's org.
func (g *Guard) CancelWhere(ctx context.Context, o engine.BulkCancel) (engine.Bulk, error) {
	ctx, _, asks, err := g.authorizeScope(ctx, Write)
	if err != nil {
		return engine.Bulk{}, err
	}
	if asks {
		all, err := g.inner.Tasks(ctx, o.Filter.Session)
		own, err := ownOnly(ctx, g, all, err, func(t perdure.Task) perdure.SessionID { return t.Session })
		if err != nil {
			return engine.Bulk{}, err
		}
		o.AllowedSessions = map[perdure.SessionID]bool{}
		for _, t := range own {
			o.AllowedSessions[t.Session] = true
		}
	}
	return g.inner.CancelWhere(ctx, o)
}

// Bulk returns a bulk of the principal's org.
func (g *Guard) Bulk(ctx context.Context, id perdure.BulkID) (engine.Bulk, error) {
	ctx, _, _, err := g.authorizeScope(ctx, Read)
	if err != nil {
		return engine.Bulk{}, err
	}
	return g.inner.Bulk(ctx, id)
}
