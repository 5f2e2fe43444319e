package host

import (
	"context"

	"github.com/perdure/perdure"
)

// idle is the scheduler of a host that does no work.
type idle struct{}

var _ Scheduler = idle{}

func (idle) Wake(perdure.SessionID)        {}
func (idle) Forget(perdure.SessionID)      {}
func (idle) StartQueued()                  {}
func (idle) Replan()                       {}
func (idle) Go(func(context.Context)) bool { return false }
func (idle) Running() bool                 { return false }
func (idle) Stopping() bool                { return false }
func (idle) LeaseHeld() bool               { return true }
func (idle) Leads() bool                   { return true }
func (idle) Granted() bool                 { return false }
