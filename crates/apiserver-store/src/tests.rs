//! The store on its own: revisions, conflicts, the window, and reading everything back.

use serde_json::json;

use super::*;

fn resource() -> GroupResource {
    GroupResource::new("", "configmaps")
}

fn key(name: &str) -> Key {
    Key::new(resource(), "default", name)
}

fn store(storage: &Storage, history: usize) -> Store {
    Store::open(storage, history).unwrap().start(Box::new(|_| {})).unwrap()
}

async fn put(store: &Store, name: &str, n: u64, expect: Expect) -> Result<u64, WriteError> {
    let value = json!({"metadata": {"name": name}, "n": n});
    let write = Write { key: key(name), expect, action: Action::Put(value), guards: vec![] };
    store.write(write).await.map(|object| object.revision)
}

async fn remove(store: &Store, name: &str, revision: u64) -> u64 {
    let expect = Expect::Revision(revision);
    let write = Write { key: key(name), expect, action: Action::Delete, guards: vec![] };
    store.write(write).await.unwrap().revision
}

fn numbers(listing: &Listing) -> Vec<(String, u64)> {
    let number = |o: &Arc<Stored>| (o.key.name.clone(), o.value["n"].as_u64().unwrap());
    listing.items.iter().map(number).collect()
}

#[tokio::test]
async fn revisions_increase_and_expectations_hold() {
    let store = store(&Storage::Memory, 100);
    let first = put(&store, "a", 1, Expect::Absent).await.unwrap();
    assert!(matches!(put(&store, "a", 2, Expect::Absent).await, Err(WriteError::Conflict)));
    let second = put(&store, "a", 2, Expect::Revision(first)).await.unwrap();
    assert!(second > first);
    assert!(matches!(put(&store, "a", 3, Expect::Revision(first)).await, Err(WriteError::Conflict)));
    assert_eq!(store.get(&key("a")).unwrap().value["metadata"]["resourceVersion"], second.to_string());
    assert!(remove(&store, "a", second).await > second);
    assert!(store.get(&key("a")).is_none());
}

#[tokio::test]
async fn everything_is_read_back_once_whether_it_is_sealed_or_judged() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::Folder(folder.path().to_owned());
    let store_before = store(&storage, 1000);
    for n in 0..101 {
        put(&store_before, &format!("a-{n:03}"), n, Expect::Absent).await.unwrap();
    }
    let written = numbers(&store_before.list(&resource(), None));
    store_before.close();
    drop(store_before);
    for judged in [false, true] {
        if judged {
            std::fs::remove_file(folder.path().join("store.sealed")).unwrap();
        }
        let read = Store::open(&storage, 1000).unwrap();
        assert_eq!(numbers(&read.everything()), written, "judged: {judged}");
        read.start(Box::new(|_| {})).unwrap().close();
    }
}

#[tokio::test]
async fn guards_are_checked_with_the_write() {
    let store = store(&Storage::Memory, 100);
    let guard = put(&store, "guard", 1, Expect::Absent).await.unwrap();
    let write = |revision| Write {
        key: key("a"),
        expect: Expect::Absent,
        action: Action::Put(json!({"metadata": {}})),
        guards: vec![(key("guard"), revision)],
    };
    assert!(matches!(store.write(write(guard + 1)).await, Err(WriteError::Conflict)));
    assert!(store.write(write(guard)).await.is_ok());
}

#[tokio::test]
async fn older_lists_are_the_current_one_undone() {
    let store = store(&Storage::Memory, 100);
    let a = put(&store, "a", 1, Expect::Absent).await.unwrap();
    let b = put(&store, "b", 1, Expect::Absent).await.unwrap();
    let changed = put(&store, "a", 2, Expect::Revision(a)).await.unwrap();
    remove(&store, "b", b).await;
    let at = |revision| numbers(&store.list_at(&resource(), Some("default"), revision).unwrap());
    assert_eq!(at(a), [("a".to_owned(), 1)]);
    assert_eq!(at(b), [("a".to_owned(), 1), ("b".to_owned(), 1)]);
    assert_eq!(at(changed), [("a".to_owned(), 2), ("b".to_owned(), 1)]);
    assert_eq!(at(store.revision()), [("a".to_owned(), 2)]);
}

#[tokio::test]
async fn the_window_forgets_the_oldest() {
    let store = store(&Storage::Memory, 3);
    let mut revision = put(&store, "a", 0, Expect::Absent).await.unwrap();
    for n in 1..10 {
        revision = put(&store, "a", n, Expect::Revision(revision)).await.unwrap();
    }
    assert!(store.events_after(None, revision - 4, 100).is_none());
    let batch = store.events_after(Some(&resource()), revision - 3, 100).unwrap();
    assert_eq!(batch.events.len(), 3);
    assert_eq!(batch.through, revision);
    let batch = store.events_after(Some(&resource()), revision - 3, 2).unwrap();
    assert_eq!((batch.events.len(), batch.through), (2, revision - 1));
}

#[tokio::test]
async fn everything_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::Folder(folder.path().join("data"));
    let before = store(&storage, 4);
    let a = put(&before, "a", 1, Expect::Absent).await.unwrap();
    let a = put(&before, "a", 2, Expect::Revision(a)).await.unwrap();
    let b = put(&before, "b", 1, Expect::Absent).await.unwrap();
    let gone = remove(&before, "a", a).await;
    put(&before, "b", 2, Expect::Revision(b)).await.unwrap();
    let describe = |store: &Store| {
        let batch = store.events_after(None, a - 1, 100).unwrap();
        let event = |e: &Arc<Event>| {
            let previous = e.previous.as_ref().map(|p| p.json.clone());
            (e.revision, e.change, e.object.json.clone(), previous)
        };
        (numbers(&store.list(&resource(), None)), batch.events.iter().map(event).collect::<Vec<_>>())
    };
    let expected = describe(&before);
    assert_eq!(expected.1.len(), 4);
    drop(before);
    let after = store(&storage, 4);
    assert_eq!(describe(&after), expected);
    assert!(put(&after, "a", 3, Expect::Absent).await.unwrap() > gone + 1);
}

#[tokio::test]
async fn the_window_is_no_heavier_than_it_may_be() {
    let store = store(&Storage::Memory, 10_000);
    let mut expect = Expect::Absent;
    for n in 0..40_u8 {
        let value = json!({"metadata": {}, "n": char::from(b'a' + n % 26).to_string().repeat(2 << 20)});
        let write = Write { key: key("a"), expect, action: Action::Put(value), guards: vec![] };
        expect = Expect::Revision(store.write(write).await.unwrap().revision);
    }
    assert!(store.events_after(None, 1, 100).is_none(), "eighty megabytes are kept");
    let newest = store.revision();
    assert_eq!(store.events_after(None, newest - 20, 100).unwrap().events.len(), 20);
}

#[tokio::test]
async fn an_object_grows_only_so_far() {
    let store = store(&Storage::Memory, 10);
    let write =
        |value| Write { key: key("a"), expect: Expect::Absent, action: Action::Put(value), guards: vec![] };
    let large = json!({"metadata": {}, "n": "x".repeat(MOST_BYTES)});
    assert!(matches!(store.write(write(large)).await, Err(WriteError::TooLarge)));
    let fits = json!({"metadata": {}, "n": "x".repeat(MOST_BYTES - 100)});
    assert!(store.write(write(fits)).await.is_ok());
}

#[tokio::test]
async fn an_index_finds_what_a_search_would_find() {
    fn odd_or_even(object: &Stored) -> Vec<String> {
        let number = object.value["n"].as_u64().unwrap_or_default();
        vec![(number % 2).to_string(), format!("by three {}", number % 3)]
    }
    let store = store(&Storage::Memory, 10);
    // Objects from before the index count, too.
    for n in 0..5 {
        put(&store, &format!("a-{n}"), n, Expect::Absent).await.unwrap();
    }
    store.index(&resource(), odd_or_even);
    for n in 0..60_u64 {
        let name = format!("a-{}", n * 7 % 13);
        match store.get(&key(&name)) {
            Some(found) if n % 5 == 0 => _ = remove(&store, &name, found.revision).await,
            Some(found) => _ = put(&store, &name, n, Expect::Revision(found.revision)).await.unwrap(),
            None => _ = put(&store, &name, n, Expect::Absent).await.unwrap(),
        }
        for keys in [&["0"][..], &["1", "by three 0"], &["none"], &[]] {
            let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
            let mut expected = store.list(&resource(), None).items;
            expected.retain(|object| odd_or_even(object).iter().any(|key| keys.contains(key)));
            let names = |objects: &[Arc<Stored>]| {
                objects.iter().map(|object| (object.key.name.clone(), object.revision)).collect::<Vec<_>>()
            };
            let found = store.list_by(&resource(), Some("default"), &keys);
            assert_eq!(names(&found), names(&expected), "{keys:?}");
            assert!(store.list_by(&resource(), Some("other"), &keys).is_empty());
        }
    }
}

#[tokio::test]
async fn a_resource_that_changes_seldom_keeps_its_events_complete() {
    let store = store(&Storage::Memory, 10);
    let seldom = GroupResource::new("", "secrets");
    let value = json!({"metadata": {"name": "s"}});
    let write = Write {
        key: Key::new(seldom.clone(), "default", "s"),
        expect: Expect::Absent,
        action: Action::Put(value),
        guards: vec![],
    };
    let revision = store.write(write).await.unwrap().revision;
    let first = put(&store, "first", 0, Expect::Absent).await.unwrap();
    for n in 0..50 {
        put(&store, &format!("a-{n}"), n, Expect::Absent).await.unwrap();
    }
    // Of what changes often, events are gone.
    assert!(store.events_after(Some(&resource()), first, 10).is_none());
    let quiet = store.events_after(Some(&seldom), revision, 10).expect("nothing of it is gone");
    assert!(quiet.events.is_empty() && quiet.through == store.revision());
    // The creation itself is gone.
    assert!(store.events_after(Some(&seldom), revision - 1, 10).is_none());
    assert!(store.events_after(None, revision, 10).is_none());
}
