package store

import "context"

// Fenced is a store whose transactions check a fence first, in the same commit. If the fence
// returns an error, the transaction fails with it.
type Fenced struct {
	Store
	Fence func(Reader) error
}

// InTx runs fn if the fence allows it.
func (f Fenced) InTx(ctx context.Context, fn func(Tx) error) error {
	return f.Store.InTx(ctx, func(tx Tx) error {
		if err := f.Fence(tx.Reader()); err != nil {
			return err
		}
		return fn(tx)
	})
}
