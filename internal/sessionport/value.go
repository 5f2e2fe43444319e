package sessionport

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// values implements tool.Values: the session's key-value store (VA1).
type values struct{ binding }

var _ tool.Values = values{}

func (p values) SetValue(ctx context.Context, key, text string) error {
	v := store.Value{Session: p.session, Key: key, Text: text}
	if err := v.Check(); err != nil {
		return err
	}
	err := p.write(ctx, func(tx store.Tx, _ store.Session) error {
		_, err := tx.Values().Put(v)
		return err
	})
	if errors.Is(err, perdure.Limit) {
		return fmt.Errorf("%w: a session keeps at most %d values; delete one first", perdure.Limit, store.MaxKeys)
	}
	return err
}

func (p values) Value(ctx context.Context, key string) (text string, ok bool, err error) {
	err = p.store.View(ctx, func(r store.Reader) error {
		v, err := r.Values().Get(p.session, key)
		text, ok = v.Text, err == nil
		if errors.Is(err, perdure.NotFound) {
			return nil
		}
		return err
	})
	return text, ok, err
}

func (p values) RemoveValue(ctx context.Context, key string) (existed bool, err error) {
	err = p.write(ctx, func(tx store.Tx, _ store.Session) (err error) {
		existed, err = tx.Values().Remove(p.session, key)
		return err
	})
	return existed, err
}

// Keys lists the keys in order, without their values.
func (p values) Keys(ctx context.Context) (keys []tool.KeyStat, err error) {
	err = p.store.View(ctx, func(r store.Reader) error {
		found, err := r.Values().List(p.session)
		keys = nil
		for _, v := range found {
			keys = append(keys, tool.KeyStat{
				Key: v.Key, Version: v.Version, CreatedAt: v.CreatedAt, UpdatedAt: v.UpdatedAt,
			})
		}
		return err
	})
	return keys, err
}
