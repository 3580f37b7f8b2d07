//! Which part of an apiserver's work a stack belongs to.
//!
//! Each stack belongs to exactly one group, so groups add up. Functions that stand in every request's stack (filters,
//! handlers that only pass on) belong to none; of what remains the first group in the order of [`GROUPS`] is taken.

use crate::model::stacks::Stacks;

/// A part of an apiserver's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    pub name: &'static str,
    /// What it is, for someone who does not know the apiserver's sources.
    pub explanation: &'static str,
    /// Its functions begin like one of these,
    of: &'static [&'static str],
    /// but like none of these.
    not: &'static [&'static str],
}

/// The group of LIST responses, about which there is a finding.
pub const LISTS: usize = 1;

/// The groups, those that are reported first before others.
pub const GROUPS: [Group; 19] = [
    Group {
        name: "audit",
        explanation: "audit events, and objects copied into them",
        of: &[
            "k8s.io/apiserver/pkg/audit.",
            "k8s.io/apiserver/pkg/audit/",
            "k8s.io/apiserver/plugin/pkg/audit/",
            "k8s.io/apiserver/pkg/apis/audit",
        ],
        not: &["k8s.io/apiserver/pkg/audit.WithAuditContext"],
    },
    Group {
        name: "LIST responses",
        explanation: "LISTs: reading, conversion, encoding, sending",
        of: &[
            "k8s.io/apiserver/pkg/endpoints/handlers.ListResource",
            "k8s.io/apiserver/pkg/endpoints/handlers.handleList",
            "k8s.io/apiserver/pkg/endpoints.restfulListResource",
        ],
        not: &[],
    },
    Group {
        name: "watch cache",
        explanation: "objects kept to answer LIST and WATCH",
        of: &[
            "k8s.io/apiserver/pkg/storage/cacher.",
            "k8s.io/apiserver/pkg/storage/cacher/store.",
            "k8s.io/apiserver/pkg/storage/cacher/progress.",
            "k8s.io/apiserver/pkg/storage/etcd3.(*watchChan)",
            "k8s.io/apiserver/pkg/storage/etcd3.(*watcher)",
        ],
        // Requests for one object pass through the cacher on their way to etcd.
        not: &[
            "k8s.io/apiserver/pkg/storage/cacher.(*Cacher).Get",
            "k8s.io/apiserver/pkg/storage/cacher.(*Cacher).Create",
            "k8s.io/apiserver/pkg/storage/cacher.(*Cacher).Delete",
            "k8s.io/apiserver/pkg/storage/cacher.(*Cacher).GuaranteedUpdate",
            "k8s.io/apiserver/pkg/storage/cacher.(*CacheDelegator)",
        ],
    },
    Group {
        name: "WATCH responses",
        explanation: "events, encoded for each watcher",
        of: &[
            "k8s.io/apiserver/pkg/endpoints/handlers.(*WatchServer)",
            "k8s.io/apiserver/pkg/endpoints/handlers.serveWatch",
            "k8s.io/apiserver/pkg/endpoints/handlers.(*watchEncoder)",
            "k8s.io/apiserver/pkg/endpoints/handlers.(*watchListTransformer)",
            "k8s.io/apiserver/pkg/endpoints/handlers.(*watchEmbeddedEncoder)",
        ],
        not: &[],
    },
    Group {
        name: "admission",
        explanation: "admission plugins, webhooks, policies",
        of: &[
            "k8s.io/apiserver/pkg/admission",
            "k8s.io/kubernetes/plugin/pkg/admission",
            "k8s.io/apiserver/pkg/cel",
            "github.com/google/cel-go",
            "k8s.io/kubernetes/pkg/kubeapiserver/admission",
        ],
        not: &[],
    },
    Group {
        name: "informers",
        explanation: "objects in the apiserver's own informers",
        of: &[
            "k8s.io/client-go/tools/cache.",
            "k8s.io/client-go/rest/watch.",
            "k8s.io/client-go/informers",
            "k8s.io/apimachinery/pkg/watch.(*StreamWatcher)",
        ],
        not: &[],
    },
    Group {
        name: "OpenAPI",
        explanation: "API schemas of all types and CRDs",
        of: &[
            "k8s.io/kube-openapi/",
            "k8s.io/apiserver/pkg/server/routes.OpenAPI",
            "k8s.io/kube-aggregator/pkg/controllers/openapi",
            "k8s.io/apiextensions-apiserver/pkg/controller/openapi",
            "github.com/google/gnostic",
        ],
        not: &["k8s.io/kube-openapi/pkg/util/proto"],
    },
    Group {
        name: "server-side apply",
        explanation: "managedFields: who owns which field",
        of: &[
            "k8s.io/apimachinery/pkg/util/managedfields",
            "sigs.k8s.io/structured-merge-diff",
            "k8s.io/apiserver/pkg/endpoints/handlers/fieldmanager",
        ],
        not: &[],
    },
    Group {
        name: "APF",
        explanation: "priority and fairness: queues, seats",
        of: &["k8s.io/apiserver/pkg/util/flowcontrol"],
        not: &[
            "k8s.io/apiserver/pkg/util/flowcontrol.(*configController).Handle",
            "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/queueset.(*request).Finish",
        ],
    },
    Group {
        name: "authn, authz",
        explanation: "tokens, certificates, RBAC",
        of: &[
            "k8s.io/apiserver/pkg/authentication/",
            "k8s.io/apiserver/pkg/authorization/",
            "k8s.io/apiserver/plugin/pkg/auth",
            "k8s.io/kubernetes/plugin/pkg/auth",
            "k8s.io/kubernetes/pkg/serviceaccount",
        ],
        not: &[],
    },
    Group {
        name: "custom resources",
        explanation: "CRDs: handlers, schemas, conversion",
        of: &["k8s.io/apiextensions-apiserver/"],
        not: &[
            "k8s.io/apiextensions-apiserver/pkg/apiserver.(*crdHandler).ServeHTTP",
            "k8s.io/apiextensions-apiserver/pkg/apiserver.(*crdHandler).serve",
            "k8s.io/apiextensions-apiserver/pkg/apiserver.CompletedConfig",
            "k8s.io/apiextensions-apiserver/pkg/apiserver.completedConfig",
        ],
    },
    Group {
        name: "metrics",
        explanation: "metrics series and /metrics pages",
        of: &["k8s.io/component-base/metrics", "github.com/prometheus/"],
        not: &["k8s.io/component-base/metrics/prometheus/slis"],
    },
    Group {
        name: "other requests",
        explanation: "requests for single objects",
        of: &[
            "k8s.io/apiserver/pkg/endpoints/handlers.",
            "k8s.io/apiserver/pkg/endpoints/handlers/responsewriters.",
            "k8s.io/apiserver/pkg/registry/generic/registry.(*Store)",
            "k8s.io/kube-aggregator/pkg/apiserver.(*proxyHandler).ServeHTTP",
        ],
        not: &["k8s.io/apiserver/pkg/registry/generic/registry.(*Store).CompleteWithOptions"],
    },
    Group {
        name: "etcd client",
        explanation: "connections and messages to and from etcd",
        of: &[
            "go.etcd.io/etcd/",
            "google.golang.org/grpc",
            "k8s.io/apiserver/pkg/storage/etcd3",
            "k8s.io/apiserver/pkg/storage/storagebackend",
        ],
        not: &[],
    },
    Group {
        name: "client connections",
        explanation: "HTTP/2 and TLS buffers of clients",
        of: &[
            "net/http.(*http2",
            "net/http.(*conn)",
            "net/http.(*Server)",
            "golang.org/x/net/http2",
            "crypto/tls.",
            "net/http.(*persistConn)",
            "net/http.(*Transport)",
        ],
        not: &[],
    },
    Group {
        name: "controllers",
        explanation: "work queues, leases, post-start hooks",
        of: &[
            "k8s.io/client-go/",
            "k8s.io/kubernetes/pkg/controlplane/controller",
            "k8s.io/kube-aggregator/pkg/controllers",
            "k8s.io/apiserver/pkg/server.(*GenericAPIServer).RunPostStartHooks",
            "k8s.io/apiserver/pkg/server.runPostStartHook",
        ],
        not: &["k8s.io/client-go/kubernetes/scheme."],
    },
    Group {
        name: "start-up",
        explanation: "API types, routes; does not grow",
        of: &["main.main", "main.init", "runtime.doInit", "runtime.main", "k8s.io/kubernetes/cmd/kube-apiserver/app"],
        not: &[],
    },
    Group {
        name: "Go runtime",
        explanation: "goroutines, timers, the runtime itself",
        of: &["runtime."],
        not: &["runtime.goexit", "runtime.newobject", "runtime.growslice", "runtime.makeslice"],
    },
    Group { name: "other", explanation: "everything else", of: &[""], not: &[] },
];

/// What each group holds, in the order of [`GROUPS`], and in how many samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupHeap {
    /// Before and now.
    pub weight: [u64; 2],
    /// Samples that are not 0, now.
    pub samples: u64,
}

/// Of each sample of a profile its group. The whole stack says what it is for, also where only a part of it is shown.
pub fn of_samples(stacks: &Stacks) -> Vec<u8> {
    let starts = Starts::new();
    let functions: Vec<u32> =
        stacks.functions.iter().map(|function| starts.groups(stacks.text(function.name))).collect();
    let of_location = |location: u32| {
        stacks
            .frames_of(location)
            .iter()
            .fold(0, |set, frame| set | functions.get(frame.function as usize).copied().unwrap_or(0))
    };
    let locations: Vec<u32> = (0..stacks.locations.len() as u32).map(of_location).collect();
    let of_sample = |sample: usize| {
        let set = stacks
            .stack(sample)
            .iter()
            .fold(0, |set, location| set | locations.get(*location as usize).copied().unwrap_or(0));
        (set.trailing_zeros() as usize).min(GROUPS.len() - 1) as u8
    };
    (0..stacks.samples()).map(of_sample).collect()
}

/// All that functions of a group begin like, or must not, as a tree: each letter leads on to the next. A large profile
/// has hundreds of thousands of functions, and most are distinguished from all groups within a few letters.
struct Starts(Vec<Letter>);

/// The end of a beginning that is at least part of one in [`GROUPS`].
struct Letter {
    /// Where each letter, from the space on, leads; 0 where no other beginning has it.
    next: [u16; Self::LETTERS],
    /// Groups that have this beginning or a shorter one in `of`, and in `not`, as bits.
    of: u32,
    not: u32,
}

impl Letter {
    /// Those of ASCII.
    const LETTERS: usize = 96;

    fn number(letter: u8) -> usize {
        usize::from(letter.wrapping_sub(b' '))
    }
}

impl Starts {
    fn new() -> Self {
        let mut all = Self(vec![Letter { next: [0; Letter::LETTERS], of: 0, not: 0 }]);
        for (number, group) in GROUPS.iter().enumerate() {
            group.of.iter().for_each(|start| all.at(start).of |= 1 << number);
            group.not.iter().for_each(|start| all.at(start).not |= 1 << number);
        }
        // What is longer was added later than what it begins like.
        for letter in 0..all.0.len() {
            let (next, of, not) = (all.0[letter].next, all.0[letter].of, all.0[letter].not);
            for next in next.into_iter().filter(|next| *next > 0) {
                let next = &mut all.0[usize::from(next)];
                (next.of, next.not) = (next.of | of, next.not | not);
            }
        }
        all
    }

    /// Where a beginning ends; the way there is made.
    fn at(&mut self, start: &str) -> &mut Letter {
        let mut at = 0;
        for letter in start.bytes().map(Letter::number) {
            if self.0[at].next[letter] == 0 {
                self.0[at].next[letter] = self.0.len() as u16;
                self.0.push(Letter { next: [0; Letter::LETTERS], of: 0, not: 0 });
            }
            at = usize::from(self.0[at].next[letter]);
        }
        &mut self.0[at]
    }

    /// The groups that a function may belong to, as bits.
    fn groups(&self, name: &str) -> u32 {
        let mut at = &self.0[0];
        for letter in name.bytes().map(Letter::number) {
            match at.next.get(letter) {
                Some(next @ 1..) => at = &self.0[usize::from(*next)],
                _ => break,
            }
        }
        at.of & !at.not
    }
}

/// Adds what the groups hold of samples, whose groups are `of`.
pub fn add(
    held: &mut Vec<GroupHeap>,
    stacks: &Stacks,
    of: &[u8],
    samples: impl Iterator<Item = u32>,
    kind: usize,
    when: usize,
) {
    held.resize(GROUPS.len(), GroupHeap::default());
    for sample in samples {
        let weight = stacks.value(sample as usize, kind);
        let group = of.get(sample as usize).copied().unwrap_or(GROUPS.len() as u8 - 1);
        if let Some(held) = held.get_mut(usize::from(group)).filter(|_| weight > 0) {
            held.weight[when] = held.weight[when].saturating_add(weight);
            held.samples += u64::from(when == 1);
        }
    }
}

/// Whether the profile is of an apiserver: only of those the groups say anything.
pub fn is_apiserver(stacks: &Stacks) -> bool {
    stacks.functions.iter().any(|function| stacks.text(function.name).starts_with("k8s.io/apiserver/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::stacks::{Frame, Function, Location, SampleType};

    /// One sample for each stack, leaf first.
    fn profile(stacks: &[&[&str]]) -> Stacks {
        let mut profile = Stacks::of(vec![SampleType { name: "inuse_space".into(), unit: "bytes".into() }]);
        for stack in stacks {
            let mut locations = Vec::new();
            for name in *stack {
                let name = profile.add_text(name).unwrap();
                let number = profile.functions.len() as u32;
                profile.functions.push(Function { name, file: 0, start_line: 0 });
                profile.frames.push(Frame { function: number, line: 1 });
                profile.locations.push(Location { address: 1, object: 0, first: number, end: number + 1 });
                locations.push(number);
            }
            assert!(profile.add_sample(&locations, &[1]));
        }
        profile
    }

    #[test]
    fn the_tree_says_what_the_groups_say() {
        let starts = Starts::new();
        let of_function = |name: &str| {
            let begins = |start: &&str| name.starts_with(*start);
            let is_of = |group: &Group| group.of.iter().any(begins) && !group.not.iter().any(begins);
            GROUPS.iter().enumerate().fold(0, |set, (number, group)| set | u32::from(is_of(group)) << number)
        };
        let all = GROUPS.iter().flat_map(|group| group.of.iter().chain(group.not));
        let cut = |text: &str| (0..=text.len()).map(|end| text[..end].to_owned()).collect::<Vec<_>>();
        let names: Vec<String> = all.flat_map(|text| cut(text)).collect();
        assert!(names.len() > 2000);
        for name in names.iter().flat_map(|name| ["", "!", "x", "~", "é", "\n"].map(|end| format!("{name}{end}"))) {
            assert_eq!(starts.groups(&name), of_function(&name), "{name}");
        }
    }

    #[test]
    fn stacks_belong_to_the_work_they_were_made_for() {
        let request = "k8s.io/apiserver/pkg/endpoints/filters.WithAudit.func1";
        let fair = "k8s.io/apiserver/pkg/util/flowcontrol.(*configController).Handle";
        let cases: [(&str, &[&str]); 12] = [
            (
                "LIST responses",
                &["bytes.Clone", "k8s.io/apiserver/pkg/endpoints/handlers.ListResource.func1", fair, request],
            ),
            (
                "LIST responses",
                &[
                    "k8s.io/apiserver/pkg/storage/etcd3.decodeObj",
                    "k8s.io/apiserver/pkg/endpoints/handlers.handleList",
                    fair,
                ],
            ),
            (
                "watch cache",
                &[
                    "k8s.io/api/core/v1.(*Secret).Unmarshal",
                    "k8s.io/apiserver/pkg/storage/etcd3.(*watchChan).transform",
                ],
            ),
            (
                "watch cache",
                &[
                    "k8s.io/apiserver/pkg/storage/etcd3.decodeObj",
                    "k8s.io/client-go/tools/cache.(*Reflector).list",
                    "k8s.io/apiserver/pkg/storage/cacher.(*Cacher).startCaching",
                ],
            ),
            (
                "informers",
                &["k8s.io/api/core/v1.(*Secret).Unmarshal", "k8s.io/client-go/tools/cache.(*Reflector).list"],
            ),
            (
                "APF",
                &["k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/queueset.(*queueSet).StartRequest", fair, request],
            ),
            (
                "audit",
                &[
                    "k8s.io/apiserver/pkg/audit.LogResponseObject",
                    "k8s.io/apiserver/pkg/endpoints/handlers.handleList",
                    request,
                ],
            ),
            (
                "admission",
                &[
                    "k8s.io/apiserver/pkg/admission/plugin/webhook.x",
                    "k8s.io/apiserver/pkg/endpoints/handlers.createHandler.func1",
                ],
            ),
            ("OpenAPI", &["encoding/json/v2.Marshal", "k8s.io/kube-openapi/pkg/handler3.newOpenAPIV3Group.func1"]),
            (
                "other requests",
                &[
                    "k8s.io/apiserver/pkg/storage/etcd3.(*store).Get",
                    "k8s.io/apiserver/pkg/endpoints/handlers.GetResource.func1",
                    fair,
                ],
            ),
            ("etcd client", &["google.golang.org/grpc/internal/transport.newBufWriter"]),
            ("other", &["a.b"]),
        ];
        for (name, stack) in cases {
            let profile = profile(&[stack]);
            let mut held = Vec::new();
            add(&mut held, &profile, &of_samples(&profile), 0..1, 0, 1);
            let group = held.iter().position(|held| held.weight[1] == 1).unwrap();
            assert_eq!(GROUPS[group].name, name, "{stack:?}");
        }
        assert_eq!(GROUPS[LISTS].name, "LIST responses");
    }
}
