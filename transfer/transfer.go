// Package transfer brings sessions into a store and takes them out again:
// imports of what other tools keep, exports, and archives of whole stores.
//
// It never prints, asks or reads the environment: what people want to see on the
// way is a function in the options, and what came of it is returned. A second
// import adds only what is new, and nothing that is here is overwritten.
package transfer
