// Package conformance pins the modules that Kubernetes' own end-to-end tests need.
package conformance

import _ "k8s.io/kubernetes/test/e2e"
