// Package budget holds the nouns and rules of what may be spent: amounts, budgets and their periods, what stands on one, and
// the prices of models and tools.
//
// It may import the root only. The one thing to know: it is pure. An [Account] says by [Account.Refuses] whether something may
// begin; a store keeps accounts, and internal/meter moves them, in the transaction in which the work begins or ends.
package budget
