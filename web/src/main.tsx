import { render } from 'preact';
import 'katex/dist/katex.css';
import './style/base.css';
import './style/layout.css';
import './style/sidebar.css';
import './style/dialog.css';
import './style/thread.css';
import './style/text.css';
import './style/phone.css';
import { Store } from './state/store';
import { App } from './view/app';

const store = new Store();
render(<App store={store} />, document.getElementById('app') as HTMLElement);
void store.start();
