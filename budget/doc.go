// Package budget holds the types and rules of budgets: amounts, budgets and their periods, accounts
// with what was spent and reserved, and the prices of models and tools.
//
// The package may import only the root package.
//
// The one thing to know: the package is pure. [Account.Refuses] decides whether work may start. A
// store keeps the accounts, and internal/meter changes them in the transaction in which the work
// starts or ends.
package budget
