package main

import (
	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/api"
)

// shown is an event as webhooks are sent it: as the API shows it.
func shown(disclosure string) func(perdure.Event) perdure.Event {
	return func(e perdure.Event) perdure.Event { return api.Disclosed(e, api.Disclosure(disclosure)) }
}
