// Package webhook is the nouns of webhooks: where events are sent, the queue of what is on its way there, and when it is tried
// again (H13).
//
// It may import the root. The one thing to know: a delivery has one id on all its tries, which is derived from the webhook and
// the event, so a receiver that remembers ids takes each event once, and a queue that is keyed by them has it once.
package webhook
